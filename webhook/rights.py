"""Asks the API server whether somebody may use a policy, and remembers the answer for a moment.

Knows nothing of pods: who asks for what is an argument. Every answer costs one SubjectAccessReview, which
leaves no trace; so many at once are sent, the others wait for their turn within the time-out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec
import structlog

from policy.keys import GROUP, VERSION
from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable, KubePort
from webhook.review import UserInfo

REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RESOURCE, VERB = "gpupolicies", "use"
Key = tuple[object, ...]

log = structlog.get_logger(__name__)


class Right(StrEnum):
    """Whether somebody may; unknown is neither."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


class RightsLimits(msgspec.Struct, frozen=True):
    """Bounds of asking: seconds that answers count, seconds to wait, answers kept, questions at once."""

    allowed_seconds: float = 10.0
    denied_seconds: float = 2.0
    timeout_seconds: float = 1.0
    kept: int = 4096
    at_once: int = 32


class _Status(msgspec.Struct):
    """`status` of a SubjectAccessReview."""

    allowed: bool = False


class _Reviewed(msgspec.Struct):
    """A SubjectAccessReview that was answered."""

    status: _Status


class Rights:
    """The right to use policies, asked and remembered; `count` hears the result of every question sent."""

    def __init__(
        self,
        client: KubePort,
        clock: Clock,
        limits: RightsLimits,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._limits = limits
        self._count = count
        self._answers: OrderedDict[Key, tuple[float, Right]] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Right]] = {}
        self._turns = asyncio.Semaphore(limits.at_once)

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:
        """Whether `user` has the verb use on the policy in the namespace; never raises.

        Equal questions at the same time are asked once.
        """
        key = _key(user, policy, namespace)
        known = self._answers.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, _review(user, policy, namespace)))
            self._asking[key] = task
        # Whoever asked first may go away; the others still want the answer.
        return await asyncio.shield(task)

    async def _ask(self, key: Key, body: dict[str, Any]) -> Right:
        """Asks and remembers; what could not be found out is not remembered."""
        try:
            right = await self._send(body)
        finally:
            del self._asking[key]
        self._count(right.value)
        if right is not Right.UNKNOWN:
            limits = self._limits
            lasts = limits.allowed_seconds if right is Right.ALLOWED else limits.denied_seconds
            self._answers[key] = (self._clock.monotonic() + lasts, right)
            self._answers.move_to_end(key)
            while len(self._answers) > limits.kept:
                self._answers.popitem(last=False)
        return right

    async def _send(self, body: dict[str, Any]) -> Right:
        """Sends one review."""
        try:
            async with asyncio.timeout(self._limits.timeout_seconds), self._turns:
                answer = await self._client.request("POST", REVIEWS_PATH, body=body)
                reviewed = answer.decode(_Reviewed)
        except (ApiError, ApiUnreachable, TimeoutError) as error:
            log.warning("right not checked", error=str(error) or "no answer in time")
            return Right.UNKNOWN
        return Right.ALLOWED if reviewed.status.allowed else Right.DENIED


def _key(user: UserInfo, policy: str, namespace: str) -> Key:
    """All that an answer depends on."""
    extra = tuple(sorted((name, values or ()) for name, values in (user.extra or {}).items()))
    return user.username, user.uid, user.groups, extra, policy, namespace


def _review(user: UserInfo, policy: str, namespace: str) -> dict[str, Any]:
    """The question, with everything that the API server said of the user.

    It names the namespace, so that a RoleBinding gives the right there and a ClusterRoleBinding everywhere.
    """
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.username,
            "uid": user.uid or "",
            "groups": list(user.groups or ()),
            "extra": {name: list(values or ()) for name, values in (user.extra or {}).items()},
            "resourceAttributes": {
                "group": GROUP,
                "version": VERSION,
                "resource": RESOURCE,
                "name": policy,
                "verb": VERB,
                "namespace": namespace,
            },
        },
    }
