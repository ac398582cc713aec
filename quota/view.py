"""What the leader sees of the cluster: pods at one version, namespaces, quotas; decides nothing.

A view is made anew for each leadership, so that it starts from consistent lists.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import OrderedDict
from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from policy.claims import ClaimTemplate
from policy.keys import Enforcement, enforcement_of
from policy.ledger_count import HeldPod
from policy.objects import Namespace
from policy.requester import UNKNOWN
from policy.resources import ResourceTable
from quota.pods import PodReader
from runtime.claims import TEMPLATES_PATH
from runtime.clock import Clock
from runtime.kube import KubePort
from runtime.quotas import QUOTAS_PATH, read_stored
from runtime.sieve import gpu_pod_sieve
from runtime.watch import Change, WatchCache, WatchOptions

PODS_PATH = "/api/v1/pods"
NAMESPACES_PATH = "/api/v1/namespaces"
REMEMBERED = 50_000
OPTIONS = WatchOptions(longest_pause=10.0)


class View:
    """The caches of one leadership; `changed` is set whenever one of them has something new."""

    def __init__(
        self, client: KubePort, table: ResourceTable, excluded: Collection[str], clock: Clock
    ) -> None:
        self.changed = asyncio.Event()
        self._templates_tried = asyncio.Event()
        tried = dataclasses.replace(
            OPTIONS, longest_pause=300.0, on_problem=lambda _: self._templates_tried.set()
        )
        self.templates = WatchCache(client, TEMPLATES_PATH, _read_template, clock=clock, options=tried)
        self._reader = PodReader(table, self.templates.get)
        sieve = gpu_pod_sieve(table)
        self.pods = WatchCache(
            client, PODS_PATH, self._reader.read, clock=clock, sieve=sieve, options=OPTIONS
        )
        self.namespaces = WatchCache(client, NAMESPACES_PATH, _read_namespace, clock=clock, options=OPTIONS)
        self.quotas = WatchCache(client, QUOTAS_PATH, read_stored, clock=clock, options=OPTIONS)
        self.births: dict[str, float] = {}
        self._deaths: OrderedDict[str, None] = OrderedDict()
        self._clock = clock
        self._excluded = frozenset(excluded)
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._requesters: dict[str, str] = {}
        self.pods.subscribe(self._on_pod)
        self.namespaces.subscribe(self._on_namespace)
        self.quotas.subscribe(lambda *_: self.changed.set())

    async def run(self) -> None:
        """Keeps the caches true for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.templates.run(), name="watch resourceclaimtemplates")
            group.create_task(self.namespaces.run(), name="watch namespaces")
            group.create_task(self.quotas.run(), name="watch gpuquotas")
            # Templates say what pods hold, so they are read first; not every API server has them.
            await self._templates_tried.wait()
            group.create_task(self.pods.run(), name="watch pods")

    def not_synced(self) -> str | None:
        """Why nothing can be counted yet, or None."""
        for cache in (self.namespaces, self.quotas, self.pods):
            if not cache.synced:
                problem = f": {cache.problem}" if cache.problem else ""
                return f"{cache.resource} are not read yet{problem}"
        return None

    def held_pods(self) -> list[HeldPod]:
        """All GPU pods. Who asked for one is what it said first: dropping that moves it to nobody else."""
        return [
            replace(pod, requester=self._requesters[pod.uid], recalled=True)
            if pod.uid in self._requesters
            else pod
            for pod in self.pods.values()
        ]

    def gone(self) -> Collection[str]:
        """UIDs of pods that were seen and deleted."""
        return self._gone.keys()

    def countable(self) -> list[Namespace]:
        """Namespaces that quotas may select: not excluded, not opted out."""
        return [
            namespace
            for namespace in self.namespaces.values()
            if (namespace.metadata.name or "") not in self._excluded
            and enforcement_of(namespace.metadata.labels) is not Enforcement.DISABLED
        ]

    def _on_pod(self, change: Change, old: HeldPod | None, new: HeldPod | None) -> None:
        self.changed.set()
        if change is Change.DELETED and old is not None:
            self._gone[old.uid] = None
            self._requesters.pop(old.uid, None)
            self._reader.forget(old.uid)
            if len(self._gone) > REMEMBERED:
                self._gone.popitem(last=False)
        elif old is not None and new is not None and old.requester != new.requester:
            first = self._requesters.get(new.uid) or old.requester
            if first and first != UNKNOWN:
                self._requesters[new.uid] = first

    def _on_namespace(self, change: Change, old: Namespace | None, new: Namespace | None) -> None:
        self.changed.set()
        name = ((new or old or Namespace()).metadata.name) or ""
        if change is Change.DELETED:
            self.births.pop(name, None)
            self._deaths[name] = None
            if len(self._deaths) > REMEMBERED:
                self._deaths.popitem(last=False)
        elif change is Change.ADDED:
            # Of a namesake somebody may still know the labels of the dead one.
            if self.namespaces.synced and name not in self._deaths:
                self.births[name] = self._clock.monotonic()
        elif old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self.births.pop(name, None)


def _read_namespace(raw: msgspec.Raw) -> Namespace:
    return msgspec.json.decode(raw, type=Namespace)


def _read_template(raw: msgspec.Raw) -> ClaimTemplate:
    return msgspec.json.decode(raw, type=ClaimTemplate)
