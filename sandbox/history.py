"""Writes the past of simulated devices into a running Prometheus; knows not who asks for long windows.

The samples come from the same functions as the exporter's and carry the labels of a scrape; the past of a pod
ends where its life in the sandbox, and with it the scraping, began.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import requests

from sandbox.census import Remembered
from sandbox.cluster import Sandbox
from sandbox.deadline import wait, wall_clock
from sandbox.devices import GpuPod, read_node, read_pod
from sandbox.prometheus import ScrapeJob, scraped_labels
from sandbox.shapes import SHAPES, View, label_text
from sandbox.sources import SOURCES

SEEN_SECONDS = 30.0


def write_history(sandbox: Sandbox, minutes: float = 65.0, namespaces: Collection[str] = ()) -> int:
    """Gives Prometheus the last `minutes` of all running GPU pods, or of those in some namespaces.

    Pods that started later get samples from their start only. Returns the number of samples, after Prometheus
    has been seen to answer with them.
    """
    view = current_view(sandbox, namespaces)
    begin = view.at - minutes * 60
    folder = sandbox.dir / "history"
    folder.mkdir(exist_ok=True)
    text = folder / "samples.txt"
    jobs = {job.name: job for job in sandbox.scrape_jobs}
    count, probe = 0, ""
    with text.open("w") as out:
        for line in lines(view, begin, jobs):
            out.write(line)
            count, probe = count + 1, line
        out.write("# EOF\n")
    if count:
        _load(sandbox, text, folder / "blocks")
        _wait_seen(sandbox, probe)
    return count


def current_view(sandbox: Sandbox, namespaces: Collection[str] = ()) -> View:
    """Asks who holds what, waiting until the exporter knows every running GPU pod."""
    api = sandbox.api()

    def known() -> tuple[Remembered, Sequence[GpuPod]] | None:
        pods = [pod for obj in api.list("/api/v1/pods") if (pod := read_pod(obj)) is not None]
        state = Remembered.load(requests.get(f"{sandbox.exporter_url}/state", timeout=10).text)
        return (state, pods) if all(pod.uid in state.assignment.slots for pod in pods) else None

    state, pods = wait(known, SEEN_SECONDS, "the exporter knows all running GPU pods")
    nodes = [read_node(obj) for obj in api.list("/api/v1/nodes")]
    chosen = [pod for pod in pods if not namespaces or pod.namespace in namespaces]
    interval = sandbox.options.scrape_interval_seconds
    return View(nodes, state.assignment.holdings(chosen), state.profiles, wall_clock(), interval)


def lines(view: View, begin: float, jobs: Mapping[str, ScrapeJob]) -> Iterator[str]:
    """Writes a line of OpenMetrics per sample, on a grid, so that writing twice changes nothing."""
    step = view.interval
    texts: dict[tuple[str, ...], str] = {}
    for tick in range(int(begin // step) + 1, int(view.at // step) + 1):
        at = tick * step
        alive = [one for one in view.holdings if one.pod.start <= at < one.pod.created]
        for name in {one.pod.exporter for one in alive}:
            holdings = [one for one in alive if one.pod.exporter == name]
            for series in SHAPES[SOURCES[name].shape](replace(view, holdings=holdings, at=at)):
                key = (name, series.name, *series.labels.values())
                if key not in texts:
                    texts[key] = series.name + label_text(scraped_labels(jobs[name], series.labels))
                yield f"{texts[key]} {series.value!r} {at:.3f}\n"


def _load(sandbox: Sandbox, text: Path, blocks: Path) -> None:
    """Makes blocks beside Prometheus' folder and moves them in; it looks for new ones every second."""
    shutil.rmtree(blocks, ignore_errors=True)
    sandbox.promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(blocks))
    target = sandbox.dir / "prometheus"
    target.mkdir(exist_ok=True)
    for block in blocks.iterdir():
        block.rename(target / block.name)


def _wait_seen(sandbox: Sandbox, line: str) -> None:
    if not sandbox.running("prometheus"):
        return
    series, _, at = line.rsplit(maxsplit=2)

    def seen() -> bool:
        query = {"query": f"last_over_time({series}[1s])", "time": at}
        answer = requests.post(f"{sandbox.prometheus_url}/api/v1/query", data=query, timeout=30).json()
        return bool(answer["data"]["result"])

    wait(seen, SEEN_SECONDS, "Prometheus answers with the history")
