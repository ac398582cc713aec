"""Who may read metrics: asks the API server who a token is and whether that one may; knows no metric.

Two questions at most for a token, TokenReview and SubjectAccessReview for `get` of the path; the answer is
remembered for a moment. Whoever tries token after token neither has the API server asked without end nor gets
those forgotten who may read. The token is never logged, and kept only as a hash.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict, deque
from http import HTTPStatus

import msgspec
import structlog

from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable, KubePort, Response
from runtime.ops import Guard

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REQUEST_SECONDS = 3.0
REMEMBERED_SECONDS = 60.0
KEPT = 64
STRANGERS = 20
STRANGERS_SECONDS = 10.0
"""So many tokens that are not known to be good are asked about in such a time; others must come again."""
LONGEST_TOKEN = 16384
log = structlog.get_logger(__name__)


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class Scrapers:
    """Lets those read a path whom the API server lets `get` it as a non-resource URL."""

    def __init__(self, client: KubePort, clock: Clock, path: str = "/metrics") -> None:
        self._client = client
        self._clock = clock
        self._path = path
        self._known: OrderedDict[bytes, tuple[float, HTTPStatus]] = OrderedDict()
        self._strangers: deque[float] = deque()

    async def check(self, authorization: str) -> HTTPStatus:
        """Judges the value of an Authorization header: 200, 401 (who?), 403 (may not) or 503 (not known)."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= LONGEST_TOKEN or not token.isascii():
            return HTTPStatus.UNAUTHORIZED
        key = hashlib.sha256(token.encode()).digest()
        until, status = self._known.get(key, (-math.inf, HTTPStatus.UNAUTHORIZED))
        if self._clock.monotonic() < until:
            return status
        if status is not HTTPStatus.OK and not self._has_time_for_strangers():
            return HTTPStatus.SERVICE_UNAVAILABLE
        try:
            status = await self._ask(token)
        except (ApiError, ApiUnreachable) as error:
            log.warning("nobody could say who reads metrics", error=str(error))
            return HTTPStatus.SERVICE_UNAVAILABLE
        self._remember(key, status)
        return status

    def _has_time_for_strangers(self) -> bool:
        """Whether one more may be asked about now; counts it."""
        now = self._clock.monotonic()
        while self._strangers and now - self._strangers[0] >= STRANGERS_SECONDS:
            self._strangers.popleft()
        if len(self._strangers) >= STRANGERS:
            return False
        self._strangers.append(now)
        return True

    def _remember(self, key: bytes, status: HTTPStatus) -> None:
        """Remembers an answer; if there are too many, the oldest of those who may not read goes first."""
        self._known[key] = (self._clock.monotonic() + REMEMBERED_SECONDS, status)
        self._known.move_to_end(key)
        if len(self._known) > KEPT:
            refused = (known for known, (_, one) in self._known.items() if one is not HTTPStatus.OK)
            del self._known[next(refused, next(iter(self._known)))]

    async def _ask(self, token: str) -> HTTPStatus:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        who = (await self._post(TOKENS, review)).decode(_TokenReview).status
        if not who.authenticated or who.user is None:
            return HTTPStatus.UNAUTHORIZED
        spec = {
            "user": who.user.username,
            "uid": who.user.uid,
            "groups": who.user.groups or [],
            "extra": who.user.extra or {},
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        access = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        allowed = (await self._post(ACCESS, access)).decode(_AccessReview).status.allowed
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN

    async def _post(self, path: str, body: object) -> Response:
        return await self._client.request("POST", path, body=body, timeout=REQUEST_SECONDS)


def guard_of(client: KubePort, clock: Clock, *, protect: bool) -> Guard | None:
    """What an ops server takes as its guard; None where everybody may read."""
    return Scrapers(client, clock).check if protect else None
