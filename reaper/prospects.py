"""What an eviction would do to the Jobs of warned pods, asked once and remembered; tells nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from reaper.fates import Fate
from reaper.memory import Memory
from reaper.pods import GpuPod
from reaper.ports import Ports

AT_ONCE = 8
"""Of pods that another process warned so many are asked about in one cycle, which must not take long."""


class Prospects:
    """Asks for the fates of Jobs for one process."""

    def __init__(self, ports: Ports, memory: Memory) -> None:
        self._ports = ports
        self._memory = memory

    async def ask(self, pod: GpuPod) -> Fate | None:
        """Asks what an eviction does to the pod's Job; None if it has none, or if nobody knows."""
        owner = pod.owner
        fate = None
        if owner is not None:
            peers = [
                one for one in self._ports.pods() if one.owner is not None and one.owner.uid == owner.uid
            ]
            going = sum(not (one.finished or one.deleting) for one in peers)
            fate = await self._ports.owners.fate(pod, going)
        self._memory.fates[pod.uid] = fate
        return fate

    async def catch_up(self, pods: Collection[GpuPod]) -> None:
        """Asks for some of the pods that were warned by another process."""
        unknown = [pod for pod in pods if pod.owner is not None and pod.uid not in self._memory.fates]
        await asyncio.gather(*(self.ask(pod) for pod in unknown[:AT_ONCE]))
