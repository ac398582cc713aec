"""Finds reservations whose pods will never come: seen for longer than a request may take, and not there.

Must not know what a ledger is used for. Time is monotonic and this process's own: what a reservation says of
its time was written by another clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import structlog
from msgspec import Struct

from policy.ledger import Reservation
from policy.objects import ObjectMeta
from policy.syntax import is_subdomain
from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable, KubePort

AT_ONCE = 16
GET_SECONDS = 5.0
log = structlog.get_logger(__name__)


class _Head(Struct):
    metadata: ObjectMeta


class Expiry:
    """Watches reservations grow old; `seconds` must be above the API server's time-out of a request."""

    def __init__(self, client: KubePort, clock: Clock, seconds: float) -> None:
        self._client = client
        self._clock = clock
        self._seconds = seconds
        self._seen: dict[tuple[str, str], float] = {}

    def due(self, quota: str, reservations: Mapping[str, Reservation]) -> dict[str, Reservation]:
        """The reservations that this process has seen for long enough; remembers the others."""
        now = self._clock.monotonic()
        for key in [key for key in self._seen if key[0] == quota and key[1] not in reservations]:
            del self._seen[key]
        return {
            uid: one
            for uid, one in reservations.items()
            if now - self._seen.setdefault((quota, uid), now) > self._seconds
        }

    def forget_others(self, quotas: Collection[str]) -> None:
        """Drops what is remembered of quotas that are no more."""
        self._seen = {key: since for key, since in self._seen.items() if key[0] in quotas}

    async def never_came(self, quota: str, due: Mapping[str, Reservation]) -> set[str]:
        """Those of the UIDs that no pod has, asked for past every cache; the others are looked at later."""
        some = list(due.items())[:AT_ONCE]
        found = await asyncio.gather(*(self._exists(uid, one) for uid, one in some))
        now = self._clock.monotonic()
        for (uid, _), exists in zip(some, found, strict=True):
            if exists is not False:
                self._seen[quota, uid] = now
        return {uid for (uid, _), exists in zip(some, found, strict=True) if exists is False}

    async def _exists(self, uid: str, one: Reservation) -> bool | None:
        """Whether the pod is there; None if it cannot be told."""
        if not is_subdomain(one.namespace) or not is_subdomain(one.name):
            return False
        path = f"/api/v1/namespaces/{one.namespace}/pods/{one.name}"
        try:
            response = await self._client.request("GET", path, timeout=GET_SECONDS)
            return response.decode(_Head).metadata.uid == uid
        except ApiError as error:
            if error.status == 404:
                return False
            log.warning("reserved pod not looked up", namespace=one.namespace, error=str(error))
        except ApiUnreachable as error:
            log.warning("reserved pod not looked up", namespace=one.namespace, error=str(error))
        return None
