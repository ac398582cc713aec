"""Leader election by a Lease that stays right when the API server hangs. Knows nothing of the leader's work.

Why two never lead: a leader trusts itself until `renew_deadline` after the moment *before* its last
successful request was sent; others take over `duration` after they *saw* that renewal. Clocks may drift by
the difference.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from runtime import metrics
from runtime.clock import Clock, Sleep
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.times import micro_time

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Seconds that a Lease is good for others, for its holder, and between two attempts; how to wait, draw.

    By default a leader that vanishes is followed within 18 s, and one that stops within 3 s.
    """

    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0
    sleep: Sleep = asyncio.sleep
    draw: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not 0 < 2 * self.retry < self.renew_deadline < self.duration:
            msg = "twice the retry must be below the renew deadline, and that below the duration"
            raise ValueError(msg)

    @property
    def request_timeout(self) -> float:
        """The limit of one request: below half of the renew deadline, to leave time for another."""
        return self.renew_deadline * 0.4


class Elector:
    """Campaigns for the Lease `namespace/name` as `identity`, which must be unique to this process.

    `on_change` is told True when the Lease is gained and False when it is lost.
    """

    def __init__(
        self,
        client: KubePort,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Clock,
        options: LeaseOptions | None = None,
        on_change: Callable[[bool], None] | None = None,
    ) -> None:
        self.identity = identity
        self._client = client
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._options = options or LeaseOptions()
        self._on_change = on_change
        self._leading = False
        self._valid_until = -math.inf
        self._held: _Lease | None = None
        self._unanswered = False
        self._holder = ""
        self._seen: tuple[str, float] = ("", -math.inf)

    def is_leader(self) -> bool:
        """Whether the Lease is held at this moment; to be asked right before what only a leader may do."""
        return self._clock.monotonic() < self._valid_until

    @property
    def leader(self) -> str:
        """The holder's identity as it was last seen, or an empty text."""
        return self._holder

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Campaigns, runs `work()` while leading, cancels it when the Lease is lost, and campaigns again.

        Ends when the work ends or raises, or when cancelled; the Lease is then given back if it was held.
        """
        while True:
            try:
                await self._campaign()
                finished = await self._lead(work)
            finally:
                await self._resign()
            if finished:
                return

    async def _campaign(self) -> None:
        while not await self._attempt():
            await self._options.sleep(self._options.retry * (1 + 0.2 * self._options.draw()))
        log.info("lease gained", lease=self._name, identity=self.identity)
        self._tell(leading=True)

    async def _lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Returns whether the work ended by itself (else the Lease was lost); raises what it raises."""
        task = asyncio.create_task(work(), name=f"work of the holder of {self._name}")
        keepers = (asyncio.create_task(self._renew()), asyncio.create_task(self._watch()))
        try:
            await asyncio.wait({task, *keepers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost = not task.done()
            self._valid_until = -math.inf
            for one in (task, *keepers):
                one.cancel()
            await asyncio.gather(task, *keepers, return_exceptions=True)
        for keeper in keepers:
            if not keeper.cancelled():
                keeper.result()
        if lost:
            log.warning("lease lost, work cancelled", lease=self._name, identity=self.identity)
        if not task.cancelled():
            task.result()
        return not lost

    async def _renew(self) -> None:
        """Keeps the Lease; returns when someone else holds it, or when it is too late."""
        while self.is_leader():
            await self._options.sleep(self._options.retry)
            await self._attempt()

    async def _watch(self) -> None:
        """Returns when the Lease was not renewed in time, however long a request hangs."""
        while (left := self._valid_until - self._clock.monotonic()) > 0:
            await self._options.sleep(left)

    async def _attempt(self) -> bool:
        """Takes or renews the Lease once; returns whether that worked. A failure changes nothing known."""
        before = self._clock.monotonic()
        try:
            held = await self._take_or_renew()
        except (ApiError, ApiUnreachable) as error:
            metrics.LEASE_FAILURES.labels(self._name).inc()
            log.warning("lease not taken or renewed", lease=self._name, error=str(error))
            return False
        self._valid_until = before + self._options.renew_deadline if held else -math.inf
        return held

    async def _take_or_renew(self) -> bool:
        if self._held is not None and await self._write(self._claim(self._held)):
            return True
        current = await self._read()
        if current is not None and current.spec.holder_identity not in (None, "", self.identity):
            self._holder = current.spec.holder_identity
            if not self._expired(current):
                return False
        return await self._write(self._claim(current))

    async def _read(self) -> _Lease | None:
        path = f"{self._collection}/{self._name}"
        try:
            response = await self._client.request("GET", path, timeout=self._options.request_timeout)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return response.decode(_Lease)

    async def _write(self, lease: _Lease) -> bool:
        """Writes by compare-and-swap; returns False if someone else, or an unanswered write, was faster."""
        new = lease.metadata.resource_version is None
        path = self._collection if new else f"{self._collection}/{self._name}"
        self._unanswered = True
        try:
            response = await self._client.request(
                "POST" if new else "PUT", path, body=lease, timeout=self._options.request_timeout
            )
        except ApiError as error:
            self._unanswered = False
            if error.status not in (404, 409):
                raise
            self._held = None
            return False
        self._unanswered = False
        self._held = response.decode(_Lease)
        self._holder = self._held.spec.holder_identity or ""
        return True

    def _expired(self, lease: _Lease) -> bool:
        """Whether the Lease's duration passed since this process first saw the holder's last renewal."""
        version = lease.metadata.resource_version or ""
        now = self._clock.monotonic()
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] >= (lease.spec.lease_duration_seconds or self._options.duration)

    def _claim(self, current: _Lease | None) -> _Lease:
        now = micro_time(self._clock.now())
        spec = current.spec if current else _Spec()
        ours = spec.holder_identity == self.identity
        claimed = msgspec.structs.replace(
            spec,
            holder_identity=self.identity,
            lease_duration_seconds=self._options.duration,
            renew_time=now,
            acquire_time=spec.acquire_time if ours else now,
            lease_transitions=(spec.lease_transitions or 0) + (0 if ours or current is None else 1),
        )
        metadata = current.metadata if current else _Metadata(self._name, self._namespace)
        return _Lease(metadata=metadata, spec=claimed)

    async def _resign(self) -> None:
        """Gives the Lease back if it is or may be ours, so that the next leader need not wait."""
        self._valid_until = -math.inf
        if self._leading:
            self._tell(leading=False)
        try:
            held = await self._read() if self._unanswered else self._held
            if held is not None and held.spec.holder_identity == self.identity:
                now = micro_time(self._clock.now())
                free = msgspec.structs.replace(held.spec, holder_identity="", renew_time=now)
                await self._write(_Lease(metadata=held.metadata, spec=free))
        except (ApiError, ApiUnreachable) as error:
            log.warning("lease not given back", lease=self._name, error=str(error))
        self._held = None

    def _tell(self, *, leading: bool) -> None:
        self._leading = leading
        metrics.LEASE_LEADER.labels(self._name).set(leading)
        metrics.LEASE_CHANGES.labels(self._name, "gained" if leading else "lost").inc()
        if self._on_change is not None:
            self._on_change(leading)


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel", kw_only=True):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
