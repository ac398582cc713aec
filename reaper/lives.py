"""Tells from the series of exporters which pods lived when, and what they held; asks nobody, judges nothing.

The past has no pods to list: who held a device is known from the labels of its samples. A pod that is still
there, or that kube-state-metrics tells of, gives its owner and class; of all others a class is assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from policy.asking import policy_terms
from policy.classes import CONTROLLER_CLASSES, PodClass
from policy.devices import Devices
from policy.durations import format_time
from policy.keys import REAPER_ONLY, Annotation, Label
from policy.objects import ObjectMeta, Pod
from policy.selection import PolicySet, select
from policy.terms import Action, terms_to_labels
from reaper.observation import Observation
from reaper.owners import Root
from reaper.pods import GpuPod
from reaper.signals import PodKey, Signals
from reaper.sources import Role, Sharing, Source

RESOURCES: Final = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/i915",
    "huawei": "huawei.com/Ascend910",
    "cambricon": "cambricon.com/mlu",
}
"""A resource of each vendor, for pods of which only the devices are known."""

EARLY: Final = timedelta(minutes=15)
"""How much later than its first sample a pod that is still there may have been created."""

GAP: Final = timedelta(hours=1)
"""A pod that was not seen for longer is taken for another one of its name."""

_CLASS_BY_KIND: Final = {kind: found for (_, kind), found in CONTROLLER_CLASSES.items()}


class Life(Struct, frozen=True):
    """One pod, as long as its devices were seen.

    Attributes:
        key: Namespace and name.
        uid: Its UID, made up where series name none.
        since: When it was first seen; well before for those that were there from the beginning.
        devices: The most devices that it was seen to hold.
        resource: What it is taken to ask for.
        seen_at: When it was last seen.
        unseen: For how long it had not been seen when it came back just now, beyond a step.
    """

    key: PodKey
    uid: str
    since: datetime
    devices: int
    resource: str
    seen_at: datetime
    unseen: timedelta = timedelta()


class Lives:
    """Follows pods from one moment to the next."""

    def __init__(self, sources: Collection[Source], before: timedelta) -> None:
        """`before` is how long ago pods began that were there at the first moment."""
        self._sources = {source.name: source for source in sources}
        self._before = before
        self._known: dict[PodKey, Life] = {}
        self._last: datetime | None = None
        self._count = 0

    def at(self, observation: Observation) -> tuple[Life, ...]:
        """Gives who lives at the moment of an observation."""
        at = observation.observed_at
        signals = observation.windows[min(observation.windows)]
        living = dict(self._seen(signals, at))
        recent = {key: life for key, life in self._known.items() if at - life.seen_at <= GAP}
        self._known, self._last = {**recent, **living}, at
        return tuple(living[key] for key in sorted(living))

    def _seen(self, signals: Signals, at: datetime) -> Iterator[tuple[PodKey, Life]]:
        for key in signals.pods:
            held = _held(key, signals)
            if not held:
                continue
            known, uid = self._known.get(key), next((uid for uid, _ in held.values() if uid), "")
            same = known is not None and (not uid or uid == known.uid)
            if known is not None and same and at - known.seen_at <= GAP:
                gone = at - known.seen_at - (at - self._last if self._last else timedelta())
                most = max(known.devices, len(held))
                yield key, structs.replace(known, devices=most, seen_at=at, unseen=gone)
                continue
            self._count += 1
            since = self._last if self._last is not None else at - self._before
            source = self._sources.get(next(iter(held.values()))[1])
            vendor = next((one for one in (source.vendors if source else ()) if one in RESOURCES), "nvidia")
            made = uid or f"{'/'.join(key)}#{self._count}"
            yield key, Life(key, made, since, len(held), RESOURCES[vendor], at)


def _held(key: PodKey, signals: Signals) -> dict[str, tuple[str, str]]:
    """The devices of a pod that tell whether it computes and were scraped lately: UID and source by name."""
    found = signals.pods[key]
    shares = [device for device in found if device.sharing is Sharing.SHARE]
    sliced = {device.device for device in found if device.instance}
    whole = [device for device in found if device.instance or device.device not in sliced]
    held = {}
    for device in shares or whole:
        readings = [one for one in device.of(Role.ACTIVITY) if one.metric.principal]
        if any(one.last_sample is not None for one in readings):
            held[device.name] = (device.uid, readings[0].source)
    return held


class Identity(Struct, frozen=True):
    """Who a pod was, apart from its devices.

    Attributes:
        root: Its root owner.
        pod_class: Its class.
        pod: The pod itself, if it is still there.
        assumed: Whether the class is only assumed.
    """

    root: Root
    pod_class: PodClass
    pod: GpuPod | None = None
    assumed: bool = True


class Census(Struct, frozen=True):
    """What is known of pods beside their series.

    Attributes:
        pods: Those that are still there.
        roots: Their root owners, by UID.
        namespaces: Labels of namespaces.
        otherwise: The class of pods of which nothing is known.
    """

    pods: Mapping[PodKey, GpuPod] = {}
    roots: Mapping[str, Root] = {}
    namespaces: Mapping[str, Mapping[str, str]] = {}
    otherwise: PodClass = PodClass.BATCH

    def identify(self, life: Life, owners: Mapping[PodKey, tuple[str, str]]) -> Identity:
        """Says who a pod was; `owners` are kind and name of controllers, as kube-state-metrics has them."""
        alive = self.pods.get(life.key)
        if alive is not None and (alive.uid == life.uid or alive.created <= life.since + EARLY):
            label = alive.labels.get(Label.CLASS, "")
            known = label in set(PodClass)
            root = self.roots.get(alive.uid) or _alone(life, alive.uid)
            return Identity(root, PodClass(label) if known else self.otherwise, alive, assumed=not known)
        namespace, _ = life.key
        kind, name = owners.get(life.key, ("", ""))
        if not kind:
            return Identity(_alone(life, life.uid), self.otherwise)
        found = _CLASS_BY_KIND.get(kind, PodClass.SERVING)
        version = "batch/v1" if kind == "Job" else ""
        if kind == "ReplicaSet":
            version, kind, name = "apps/v1", "Deployment", name.rpartition("-")[0] or name
        root = Root(version, kind, namespace, name, f"{kind}/{namespace}/{name}")
        return Identity(root, found, assumed=False)


def _alone(life: Life, uid: str) -> Root:
    return Root("v1", "Pod", life.key[0], life.key[1], uid)


def pod_of(
    life: Life, who: Identity, policies: PolicySet, labels: Mapping[str, str] | None, *, proposed: bool
) -> GpuPod:
    """Gives the pod of a life under policies; `labels` are its namespace's.

    One that is still there keeps the terms that it carries, unless the policies are only `proposed`. Owners
    are not stopped here: such pods count as evicted.
    """
    if who.pod is not None and not proposed and who.pod.labels.get(Label.POLICY):
        carried = dict(who.pod.labels)
        notes = {key: value for key, value in who.pod.annotations.items() if key not in REAPER_ONLY}
    else:
        policy = select(policies, life.key[0], labels).policy
        terms = policy_terms(policy, who.pod_class)
        carried = {
            Label.POLICY.value: policy.name,
            Label.CLASS.value: who.pod_class.value,
            **terms_to_labels(terms),
        }
        notes = {}
    if carried.get(Label.IDLE_ACTION) == Action.STOP.value:
        carried[Label.IDLE_ACTION.value] = Action.EVICT.value
    notes.pop(Annotation.KEEP_UNTIL, None)
    held = who.pod.devices if who.pod is not None else Devices({life.resource: life.devices})
    made = _pod(life.key, life.uid, life.since, held)
    meta = structs.replace(made.pod.metadata, labels=carried, annotations=notes)
    return structs.replace(made, labels=carried, annotations=notes, pod=Pod(metadata=meta))


def _pod(key: PodKey, uid: str, since: datetime, held: Devices) -> GpuPod:
    namespace, name = key
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid, creation_timestamp=format_time(since))
    return GpuPod(
        namespace=namespace,
        name=name,
        uid=uid,
        node="somewhere",
        phase="Running",
        labels={},
        annotations={},
        created=since,
        containers_started=since,
        devices=held,
        owner=None,
        deleting=False,
        priority=0,
        resource_version="",
        pod=Pod(metadata=meta),
    )
