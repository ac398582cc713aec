"""An hour of samples of a fleet as dcgm-exporter would have given them: pure; knows no queries."""

from __future__ import annotations

from collections.abc import Iterator

from bench.fleet import BUSY_PERCENT, DEVICES_PER_POD, INTERVAL, NOW, WINDOW, has_gaps, is_busy, key_of

METRICS_PER_DEVICE = 5
SECONDS = WINDOW + 300


def series(pods: int) -> Iterator[tuple[str, int]]:
    """Gives each series of a fleet as OpenMetrics writes it, with the number of its pod."""
    for pod in range(pods):
        namespace, name = key_of(pod)
        for ordinal in range(DEVICES_PER_POD):
            device = f'gpu="{ordinal}",UUID="GPU-{pod}-{ordinal}",Hostname="node-{pod % 1000}"'
            workload = f'exported_namespace="{namespace}",exported_pod="{name}",exported_container="main"'
            target = (
                'job="dcgm",instance="10.0.0.1:9400",namespace="gpu-operator",pod="dcgm-0",container="dcgm"'
            )
            for metric in ("GPU_UTIL", "MEM_COPY_UTIL", "FB_USED", "FB_FREE", "TOTAL_ENERGY_CONSUMPTION"):
                yield f"DCGM_FI_DEV_{metric}{{{target},{workload},{device}}}", pod


def value(name: str, pod: int, tick: int) -> str:
    """Gives the sample of a series at a tick; empty where its pod has gaps."""
    if has_gaps(pod) and tick % 40 < 15:
        return ""
    if "ENERGY" in name:
        return str(tick * 1_000_000)
    if "FB_" in name:
        return "400" if "USED" in name else "81520"
    return str(BUSY_PERCENT if is_busy(pod) else 0)


def samples(pods: int) -> Iterator[str]:
    """Gives the samples of a fleet up to NOW as lines of OpenMetrics text."""
    end = int(NOW.timestamp() // INTERVAL)
    ticks = range(end - int(SECONDS // INTERVAL), end + 1)
    for name, pod in series(pods):
        for tick in ticks:
            said = value(name, pod, tick)
            if said:
                yield f"{name} {said} {tick * INTERVAL:.0f}\n"
