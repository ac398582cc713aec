"""What exporters get wrong: frozen, without pods, profiling at zero, sharers at zero, scraped twice; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts, MetricFacts
from cli.doctor.findings import Finding, Level, fine, some
from policy.defaults import UTILIZATION_PERCENT
from reaper.pods import GpuPod
from reaper.signals import Board, Device, PodKey, Reading, Signals
from reaper.sources import Role, Sharing, Source

PROFILING: Final = "DCGM_FI_PROF_"
SURELY_BUSY: Final = 10.0
"""Percent of utilization that no idle device shows."""
BUSY_WATTS: Final = 150.0
"""Above what a device takes that holds memory and computes nothing."""
RUNNING: Final = "Running"
# An exporter asks the kubelet now and then, and is scraped now and then.
SETTLED_SECONDS: Final = 5


def check(facts: Facts) -> Iterator[Finding]:
    """Looks at what exporters said in the last minutes."""
    metrics = facts.metrics
    signals = metrics.observation.windows.get(metrics.window) if metrics.observation is not None else None
    if signals is None:
        return
    yield from _frozen(signals)
    yield from _profiling(signals)
    yield from _sharers(signals)
    yield from _namelessness(facts, signals)
    yield from _crowd(metrics)


def _frozen(signals: Signals) -> Iterator[Finding]:
    stuck = [name for name, board in signals.boards.items() if board.moved is not None and board.moved <= 0]
    if stuck:
        yield Finding(
            "exporters.frozen",
            Level.WARNING,
            "energy counters stand still, which no device that has power does",
            "the exporter repeats old values; its pods are Unknown, and Unknown never acts",
            "restart dcgm-exporter on their nodes, and its host engine where that is a process of its own",
            some(stuck),
        )
    elif any(board.moved is not None for board in signals.boards.values()):
        yield fine("exporters.frozen", "every energy counter moves")


def _profiling(signals: Signals) -> Iterator[Finding]:
    busy = {
        device.name: _largest(device, profiled=True)
        for devices in signals.pods.values()
        for device in devices
        if (_largest(device, profiled=False) or 0.0) >= SURELY_BUSY
    }
    stuck = [name for name, profiled in busy.items() if profiled == 0.0]
    if stuck:
        yield Finding(
            "exporters.profiling",
            Level.WARNING,
            "profiling metrics are zero on devices whose utilization is not",
            "they could never show activity; the pods are judged by utilization alone",
            "stop other profilers on these nodes (nsys, dcgmi), then restart dcgm-exporter;"
            " after an Xid reset the device",
            some(stuck),
        )
    elif any(profiled is not None for profiled in busy.values()):
        yield fine("exporters.profiling", "profiling metrics move where utilization does")


def _largest(device: Device, *, profiled: bool) -> float | None:
    """The largest engine or driver utilization of a device; None if no metric tells."""
    found = [
        one.maximum
        for one in device.of(Role.ACTIVITY)
        if one.maximum is not None
        and one.metric.principal
        and one.metric.name.startswith(PROFILING) is profiled
    ]
    return max(found, default=None)


def _sharers(signals: Signals) -> Iterator[Finding]:
    """Devices whose sharers are all at zero, although the card works."""
    shares: dict[str, list[Device]] = {}
    for devices in signals.pods.values():
        for device in devices:
            if device.virtual or device.sharing is Sharing.SHARE:
                shares.setdefault(device.device, []).append(device)
    still = {
        name: found
        for name, found in shares.items()
        if all(_is_zero(one) for one in found) and _works(signals.boards.get(name, Board()))
    }
    virtual = [name for name, found in still.items() if any(one.virtual for one in found)]
    if virtual:
        yield Finding(
            "exporters.host-pid",
            Level.WARNING,
            "every sharer of a device is at exactly zero, although the card works",
            "who computes cannot be told, so its pods are never Idle",
            "set hostPID: true on dcgm-exporter's DaemonSet: without it no process has a container",
            some(virtual),
        )
    others = set(still) - set(virtual)
    if others:
        yield Finding(
            "exporters.sharers",
            Level.WARNING,
            "HAMi says zero for every share of a device, although the card works",
            "it says so in some versions, and where a share has no limit of cores; such pods are never Idle",
            "give HAMi's device plugin hostPID, update HAMi, or ask for nvidia.com/gpucores below 100",
            some(others),
        )
    if shares and not still:
        yield fine("exporters.sharers", "shares show activity where their card does")


def _is_zero(device: Device) -> bool:
    readings: tuple[Reading, ...] = device.of(Role.ACTIVITY)
    return bool(readings) and all(one.maximum == 0.0 for one in readings)


def _works(board: Board) -> bool:
    host = max((one.maximum or 0.0 for one in board.host), default=0.0)
    return (
        max(host, *board.activity.values(), 0.0) >= UTILIZATION_PERCENT or (board.watts or 0.0) >= BUSY_WATTS
    )


def _namelessness(facts: Facts, signals: Signals) -> Iterator[Finding]:
    """Exporters that name none of the pods that hold devices of theirs."""
    present = {one.metric for one in facts.metrics.families}
    named = {key: _sources(devices) for key, devices in signals.pods.items()}
    wrong = False
    for source in facts.sources:
        if source.apart or not any(one.name in present for one in source.metrics):
            continue
        pods = [one for one in facts.pods.value or () if _is_shown(one, source, facts)]
        if pods and not any(source.name in named.get(_key(one), ()) for one in pods):
            wrong = True
            yield Finding(
                "exporters.pod-labels",
                Level.WARNING,
                f"{source.name} has series, and none that names a GPU pod",
                "what no series attributes is Unknown, and Unknown never acts",
                _naming(source),
                some(f"{one.namespace}/{one.name}" for one in pods),
            )
    if named and not wrong:
        yield fine("exporters.pod-labels", "exporters name the pods that hold devices")


def _key(pod: GpuPod) -> PodKey:
    return pod.namespace, pod.name


def _sources(devices: tuple[Device, ...]) -> set[str]:
    return {reading.source for device in devices for reading in device.readings}


def _is_shown(pod: GpuPod, source: Source, facts: Facts) -> bool:
    """Whether a pod has run long enough with devices that the exporter should name; of shares HAMi's."""
    since = pod.containers_started
    if pod.phase != RUNNING or since is None or (facts.at - since).total_seconds() < SETTLED_SECONDS:
        return False
    vendors = {rule.vendor for rule in pod.devices.rules}
    if source.sharing is Sharing.SHARE:
        return bool(vendors & (set(source.vendors) - {"nvidia"}))
    # Shares of HAMi are NVIDIA's devices too, and named by HAMi's monitor.
    return bool(vendors) and vendors <= set(source.vendors)


def _naming(source: Source) -> str:
    if source.name.startswith("dcgm"):
        return (
            "set DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter, mount /var/lib/kubelet/pod-resources, and"
            " drop no labels in the scrape configuration"
        )
    return "let the exporter name pods (docs/sources.md), and drop no labels in the scrape configuration"


def _crowd(metrics: MetricFacts) -> Iterator[Finding]:
    for source, devices in metrics.crowded.items():
        yield Finding(
            "exporters.scraped-twice",
            Level.WARNING,
            f"devices of {source} are reported by several scrape targets",
            "where their labels differ the same device counts as two, and sums and means are wrong",
            "keep one exporter per node, and one scrape job for it (ServiceMonitor and annotations are two)",
            some(devices),
        )
    if metrics.families and not metrics.crowded:
        yield fine("exporters.scraped-twice", "every device is reported once")
