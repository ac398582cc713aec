"""GPU pods of a large cluster with their terms, and what their devices show: pure data; judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from bench.pods import DEVICE, Object
from policy.durations import format_time, parse_duration
from policy.objects import Namespace, ObjectMeta, Pod
from policy.selection import PolicySet
from policy.terms import Action, Statistic, Terms, terms_to_labels
from reaper.exporters import DCGM
from reaper.pods import GpuPod, gpu_pod
from reaper.signals import Board, Device, PodKey, Reading, Signals
from reaper.sources import Metric, Sharing


class FleetError(RuntimeError):
    """The fleet, or what was found out about it, is not as it should be: nothing was measured."""


NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
STARTED = NOW - timedelta(hours=6)
DEVICES_PER_POD = 2
NAMESPACES = 300
WINDOW = 3600
INTERVAL = 15.0
TERMS = Terms(
    action=Action.EVICT,
    after=parse_duration("1h"),
    utilization=5,
    statistic=Statistic.MAXIMUM,
    memory=None,
    grace=parse_duration("30m"),
    warm_up=parse_duration("30m"),
)
POLICY: Object = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "default", "creationTimestamp": "2025-01-01T00:00:00Z"},
    "spec": {"idle": {"action": "evict", "after": "1h", "grace": "30m", "warmUp": "30m"}},
}
POLICIES = PolicySet.of([POLICY])
METRICS: Mapping[str, Metric] = {metric.signal: metric for metric in DCGM.metrics}
BUSY_PERCENT = 97.0


def is_busy(pod: int) -> bool:
    """Whether the devices of the pod of that number are in use; two of three are."""
    return pod % 3 != 0


def has_gaps(pod: int) -> bool:
    """Whether its series have gaps; one in ten has."""
    return pod % 10 == 9


def key_of(pod: int) -> PodKey:
    """Gives its namespace and name."""
    return f"team-{pod % NAMESPACES}", f"pod-{pod:05d}"


def fleet(pods: int) -> list[GpuPod]:
    """Gives so many pods as the reaper reads them, in the order of the watch."""
    return [_read(_pod(number)) for number in range(pods)]


def namespaces() -> dict[str, Namespace]:
    """Gives their namespaces by name."""
    names = [f"team-{number}" for number in range(NAMESPACES)]
    return {name: Namespace(metadata=ObjectMeta(name=name)) for name in names}


def signals(pods: int) -> Signals:
    """Gives what dcgm-exporter shows of their devices over the window."""
    devices = {key_of(number): tuple(_devices(number)) for number in range(pods)}
    boards = {
        device.device: Board(
            moved=1000.0,
            activity={"": device.readings[0].maximum or 0.0},
            pods={"": frozenset({key})},
        )
        for key, several in devices.items()
        for device in several
    }
    return Signals(WINDOW, devices, boards)


def _pod(number: int) -> Object:
    namespace, name = key_of(number)
    labels = {"gpu-tenure.io/policy": "default", "gpu-tenure.io/class": "batch", **terms_to_labels(TERMS)}
    limits = {DEVICE: str(DEVICES_PER_POD), "cpu": "8", "memory": "64Gi"}
    running = {"name": "main", "state": {"running": {"startedAt": format_time(STARTED)}}}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(number + 1),
        "creationTimestamp": format_time(STARTED),
        "labels": labels,
        "annotations": {"gpu-tenure.io/requested-by": f"dev-{number % 50}"},
    }
    spec = {
        "nodeName": f"node-{number % 1000}",
        "containers": [
            {"name": "main", "image": "registry.example.com/train:1", "resources": {"limits": limits}}
        ],
    }
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": [running]},
    }


def _read(pod: Object) -> GpuPod:
    read = gpu_pod(msgspec.convert(pod, Pod))
    if read is None:
        msg = "a pod of the fleet holds no GPU"
        raise FleetError(msg)
    return read


def _devices(pod: int) -> Iterator[Device]:
    level = BUSY_PERCENT if is_busy(pod) else 0.0
    expected = round(WINDOW / INTERVAL)
    samples = expected // 2 if has_gaps(pod) else expected
    for ordinal in range(DEVICES_PER_POD):
        readings = tuple(
            Reading(
                metric=METRICS[signal],
                source=DCGM.name,
                maximum=value,
                average=value,
                samples=samples,
                expected=expected,
                interval=INTERVAL,
                last_sample=NOW - timedelta(seconds=5),
                last=value,
            )
            for signal, value in (("utilization", level), ("engine", level), ("memory", 400.0 * (1 << 20)))
        )
        yield Device(f"GPU-{pod}-{ordinal}", "", "main", Sharing.DEVICE, readings=readings)
