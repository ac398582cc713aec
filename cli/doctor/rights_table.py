"""The rights that each component uses, as a table; asks nobody, and tests compare it with the chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from policy.keys import GROUP
from reaper.rights import Right
from reaper.rights import needed as needed_by_reaper
from reaper.settings import ReaperSettings

COMPONENTS: Final = ("webhook", "reaper", "quota", "certs")
LEASES: Final = "coordination.k8s.io"
ADMISSION: Final = "admissionregistration.k8s.io"


class Options(Struct, frozen=True):
    """What of an installation decides which rights are used.

    Attributes:
        namespace: Where it is installed.
        settings: The reaper's settings.
        quota: Whether quotas are kept.
        protected: Components that ask who may read their metrics.
        canary_namespace: Where `certs` tries GPU pods; empty if it tries none.
        serving_secret: The Secret with the serving certificate.
    """

    namespace: str
    settings: ReaperSettings
    quota: bool = False
    protected: frozenset[str] = frozenset()
    canary_namespace: str = ""
    serving_secret: str = "gpu-tenure-webhook-tls"  # noqa: S105 - the name of a Secret


def needed(component: str, options: Options) -> tuple[Right, ...]:
    """Gives every right that a component uses."""
    found = set(_TABLE[component](options))
    if component in options.protected:
        found |= {*_on("authentication.k8s.io", "tokenreviews", "create"), *_REVIEWS}
    return tuple(sorted(found))


def _on(group: str, resource: str, verbs: str, subresource: str = "") -> list[Right]:
    return [Right(group, resource, verb, subresource) for verb in verbs.split()]


_REVIEWS: Final = _on("authorization.k8s.io", "subjectaccessreviews", "create")


def _webhook(options: Options) -> list[Right]:
    found = [
        *_on(GROUP, "gpupolicies", "list watch"),
        *_on("", "namespaces", "list watch"),
        *_on("", "resourcequotas", "list watch"),
        *_on("scheduling.k8s.io", "priorityclasses", "list watch"),
        *_on("resource.k8s.io", "resourceclaimtemplates", "list watch"),
        *_REVIEWS,
    ]
    if options.quota:
        found += [
            *_on(GROUP, "gpuquotas", "get list watch"),
            *_on(GROUP, "gpuquotas", "update", "status"),
            *_on("", "namespaces", "get"),
        ]
    return found


def _reaper(options: Options) -> list[Right]:
    return list(needed_by_reaper(options.settings, "gpu-tenure-reaper"))


def _quota(options: Options) -> list[Right]:
    return [
        *_on("", "pods", "get list watch"),
        *_on("", "namespaces", "list watch"),
        *_on("resource.k8s.io", "resourceclaimtemplates", "list watch"),
        *_on(GROUP, "gpuquotas", "get list watch"),
        *_on(GROUP, "gpuquotas", "update", "status"),
        *_on("events.k8s.io", "events", "create patch"),
        *_lease(options.namespace, "gpu-tenure-quota"),
    ]


def _certs(options: Options) -> list[Right]:
    secrets = ("gpu-tenure-webhook-ca", options.serving_secret)
    configurations = (
        ("mutatingwebhookconfigurations", "zz-gpu-tenure"),
        ("validatingwebhookconfigurations", "gpu-tenure"),
    )
    canary = [Right("", "pods", "create", namespace=options.canary_namespace)]
    return [
        *(canary if options.canary_namespace else ()),
        *(
            Right(ADMISSION, kind, verb, name=name)
            for kind, name in configurations
            for verb in ("get", "patch")
        ),
        Right("", "secrets", "create", namespace=options.namespace),
        *(
            Right("", "secrets", verb, namespace=options.namespace, name=name)
            for name in secrets
            for verb in ("get", "update")
        ),
        *_lease(options.namespace, "gpu-tenure-certs"),
    ]


def _lease(namespace: str, name: str) -> list[Right]:
    return [
        Right(LEASES, "leases", "create", namespace=namespace),
        *(Right(LEASES, "leases", verb, namespace=namespace, name=name) for verb in ("get", "update")),
    ]


_TABLE: Final[Mapping[str, Callable[[Options], list[Right]]]] = {
    "webhook": _webhook,
    "reaper": _reaper,
    "quota": _quota,
    "certs": _certs,
}
