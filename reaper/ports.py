"""Everything a cycle asks of the world, in one place; must not know who fills it, the real world or fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from policy.objects import Namespace
from policy.selection import PolicySet
from policy.terms import Terms
from reaper.act import ActorPort
from reaper.alertboard import AlertsPort, NoAlerts
from reaper.endings import Endings
from reaper.evidence import Verdict
from reaper.jobs import GpuJob
from reaper.late_deadline_api import LateDeadlinePort
from reaper.observation import Observation
from reaper.owners import OwnersPort
from reaper.pause import Pause
from reaper.pods import GpuPod
from reaper.records import RecordsPort
from reaper.stop_api import StopPort
from runtime.clock import Clock
from runtime.events import NoOnce, OncePort


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The world of one reaper.

    Attributes:
        clock: The time.
        pods: The GPU pods of the watch cache.
        policies: The policies of the watch cache.
        namespace: A namespace of the watch cache, or None.
        namespaces: All namespaces of the watch cache.
        unready: Why the caches cannot be trusted now, or None.
        fresh_pod: The pod of that namespace and name as the API server has it; None if it is gone or holds no
            GPU.
        fresh_namespace: A namespace as the API server has it; None if it is gone.
        owners: Root owners.
        observe: What Prometheus shows at this time, for the windows and thresholds of these terms.
        judge: The verdict on a pod under these terms at this time.
        records: The GPUReclaim records.
        pause: The switch, as the API server has it at this time.
        actor: Writes on pods and evicts.
        stops: Stops owners.
        late_deadlines: Gives deadlines to what was admitted without.
        write_status: Writes the status of the GPUPolicy of this name; raises ApiError and ApiUnreachable.
        leading: True while this process may act, asked right before every write.
        alerts: Who tells Alertmanager.
        jobs: The Jobs of the watch cache that have a deadline.
        once: Who sends Events that must not be repeated.
        endings: How the containers of pods ended, as the watch showed it.
        stop: Set once this process is to stop: what has begun is done to its end, and nothing is begun.
    """

    clock: Clock
    pods: Callable[[], Collection[GpuPod]]
    policies: Callable[[], PolicySet]
    namespace: Callable[[str], Namespace | None]
    namespaces: Callable[[], Collection[Namespace]]
    unready: Callable[[], str | None]
    fresh_pod: Callable[[str, str], Awaitable[GpuPod | None]]
    fresh_namespace: Callable[[str], Awaitable[Namespace | None]]
    owners: OwnersPort
    observe: Callable[[Collection[Terms], datetime], Awaitable[Observation]]
    judge: Callable[[GpuPod, Terms, Observation, datetime], Verdict]
    records: RecordsPort
    pause: Callable[[datetime], Awaitable[Pause]]
    actor: ActorPort
    stops: StopPort
    late_deadlines: LateDeadlinePort
    write_status: Callable[[str, Mapping[str, Any]], Awaitable[None]]
    leading: Callable[[], bool]
    alerts: AlertsPort = field(default_factory=NoAlerts)
    jobs: Callable[[], Collection[GpuJob]] = tuple
    once: OncePort = field(default_factory=NoOnce)
    endings: Endings = field(default_factory=Endings)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
