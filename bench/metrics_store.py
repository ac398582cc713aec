"""A real Prometheus with an hour of samples of a fleet, which scrapes nothing; knows no queries."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from bench.fleet import BUSY_PERCENT, DEVICES_PER_POD, INTERVAL, NOW, WINDOW, has_gaps, is_busy, key_of
from sandbox.binaries import ensure
from sandbox.children import Children
from sandbox.deadline import wait
from sandbox.ports import LOOPBACK, PortBlock

METRICS_PER_DEVICE = 5
SECONDS = WINDOW + 300
READY_SECONDS = 60.0


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


def write_samples(path: Path, pods: int) -> int:
    """Writes the samples of a fleet up to NOW; gives the number of series."""
    end = int(NOW.timestamp() // INTERVAL)
    ticks = range(end - int(SECONDS // INTERVAL), end + 1)
    count = 0
    with path.open("w") as out:
        for name, pod in series(pods):
            count += 1
            for tick in ticks:
                said = value(name, pod, tick)
                if said:
                    out.write(f"{name} {said} {tick * INTERVAL:.0f}\n")
        out.write("# EOF\n")
    return count


@contextmanager
def store(folder: Path, pods: int) -> Iterator[str]:
    """Runs a Prometheus that holds an hour of a fleet; yields its address."""
    programs = ensure(os.environ, ("prometheus", "promtool"))
    text = folder / "samples.txt"
    write_samples(text, pods)
    blocks = ["tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder / "data")]
    subprocess.run([programs.path("promtool"), *blocks], check=True, capture_output=True, timeout=300)
    text.unlink()
    (folder / "prometheus.yml").write_text("{}\n")
    with PortBlock.reserve(random.SystemRandom()).guard as guard:
        children = Children.start()
        try:
            url = f"http://{LOOPBACK}:{PortBlock(guard).take()}"
            argv = [
                programs.path("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address={url.removeprefix('http://')}",
                "--log.level=warn",
            ]
            children.spawn("prometheus", argv, env={})
            wait(lambda: _ready(url), READY_SECONDS, "Prometheus is ready")
            yield url
        finally:
            children.close()


def _ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=2).ok
    except requests.RequestException:
        return False
