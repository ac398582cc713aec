"""Which rights the settings need, and which of them the account lacks; grants none and acts on nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import structlog
from msgspec import Struct

from policy.keys import GROUP
from policy.profile import Profile
from reaper import metrics
from reaper.pause import CONFIG_MAP
from reaper.settings import ReaperSettings
from reaper.stopways import Way
from runtime.clock import Sleep
from runtime.kube import ApiError, ApiUnreachable, KubePort

REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
AT_A_TIME: Final = 8
AGAIN_SECONDS: Final = 600.0
SOON_SECONDS: Final = 30.0
log = structlog.get_logger(__name__)


class Right(Struct, frozen=True, order=True):
    """A verb on a resource, such as `patch` on `deployments` of `apps`.

    `subresource`, `namespace` and `name` are empty where they do not matter.
    """

    group: str
    resource: str
    verb: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """As `kubectl auth can-i` takes it: `patch deployments.apps`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        part = f"/{self.subresource}" if self.subresource else ""
        named = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{part}{named}{where}"


def _rights(group: str, resource: str, verbs: str, subresource: str = "") -> list[Right]:
    return [Right(group, resource, verb, subresource) for verb in verbs.split()]


OWNERS: Final = (
    ("", "replicationcontrollers"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
)


def needed(settings: ReaperSettings, lease: str) -> tuple[Right, ...]:
    """Gives every right that a reaper with these settings uses; `lease` is the name of its Lease."""
    found = _reading(settings.lease_namespace)
    if settings.profile is not Profile.OBSERVE:
        # A dry run needs them too: it asks the API server what it would say.
        found += _rights("", "pods", "create", "eviction")
        found += _rights("policy", "poddisruptionbudgets", "list")
        found += [right for way in settings.ways().rows for right in _stopping(way)]
    if not settings.dry_run:
        found += _leading(settings.lease_namespace, lease)
        if settings.profile is not Profile.OBSERVE:
            found += [*_rights("", "pods", "patch"), *_rights("events.k8s.io", "events", "create patch")]
            found += _rights(GROUP, "terms", "update")
        if settings.backfill_deadline and settings.profile is Profile.ENFORCE:
            found += [*_rights("batch", "jobs", "patch"), *_rights("", "resourcequotas", "list")]
    if settings.protect_metrics:
        found += _rights("authentication.k8s.io", "tokenreviews", "create")
        found += _rights("authorization.k8s.io", "subjectaccessreviews", "create")
    return tuple(sorted(set(found)))


def _reading(namespace: str) -> list[Right]:
    return [
        *_rights("", "pods", "get list watch"),
        *_rights("", "namespaces", "get list watch"),
        *_rights("batch", "jobs", "list watch"),
        *_rights(GROUP, "gpupolicies", "list watch"),
        *_rights(GROUP, "gpureclaims", "list"),
        *(Right(group, resource, "get") for group, resource in OWNERS),
        Right("", "configmaps", "get", namespace=namespace, name=CONFIG_MAP),
    ]


def _leading(namespace: str, lease: str) -> list[Right]:
    leases = ("coordination.k8s.io", "leases")
    return [
        *_rights(GROUP, "gpupolicies", "patch", "status"),
        *_rights(GROUP, "gpureclaims", "create get delete"),
        *_rights(GROUP, "gpureclaims", "patch", "status"),
        Right(*leases, "create", namespace=namespace),
        *(Right(*leases, verb, namespace=namespace, name=lease) for verb in ("get", "update")),
    ]


def _stopping(way: Way) -> list[Right]:
    verbs = "get list patch" if way.group == "kueue.x-k8s.io" else "get patch"
    return _rights(way.group, way.resource, verbs)


class Rights:
    """The rights of one process, asked at its start and now and then."""

    def __init__(self, client: KubePort, wanted: Iterable[Right], sleep: Sleep = asyncio.sleep) -> None:
        self._client = client
        self._wanted = tuple(wanted)
        self._sleep = sleep
        self._missing: tuple[Right, ...] = ()

    def lacking(self) -> str | None:
        """Gives a sentence that names the missing rights; a check for the ops server."""
        if not self._missing:
            return None
        return f"the account may not {', '.join(map(str, self._missing))}"

    async def watch(self) -> None:
        """Asks for ever: rights come and go."""
        while True:
            known = await self.ask()
            await self._sleep(AGAIN_SECONDS if known and not self._missing else SOON_SECONDS)

    async def ask(self) -> bool:
        """Asks the API server for each right; False if it gave no answer, which says nothing."""
        free = asyncio.Semaphore(AT_A_TIME)

        async def has(right: Right) -> bool:
            async with free:
                return await self._has(right)

        try:
            answers = await asyncio.gather(*(has(right) for right in self._wanted))
        except (ApiError, ApiUnreachable) as error:
            log.warning("rights not checked", error=str(error))
            return False
        self._note(tuple(right for right, yes in zip(self._wanted, answers, strict=True) if not yes))
        return True

    def _note(self, missing: tuple[Right, ...]) -> None:
        metrics.MISSING_RIGHTS.set(len(missing))
        if missing != self._missing:
            if missing:
                log.error("rights are missing", missing=[str(right) for right in missing])
            else:
                log.info("no right is missing any more")
        self._missing = missing

    async def _has(self, right: Right) -> bool:
        asked = {
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
            "verb": right.verb,
            "namespace": right.namespace,
            "name": right.name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
        }
        answer = await self._client.request("POST", REVIEWS, body=body)
        status: Any = answer.decode(dict[str, Any]).get("status")
        return isinstance(status, dict) and status.get("allowed") is True
