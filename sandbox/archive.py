"""A real Prometheus that holds given samples and scrapes nothing, without a control plane; asks nothing."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from sandbox.binaries import ensure
from sandbox.children import Children
from sandbox.deadline import wait
from sandbox.ports import LOOPBACK, PortBlock

BLOCKS_SECONDS = 600
READY_SECONDS = 60.0


@contextmanager
def archive(lines: Iterable[str], folder: Path) -> Iterator[str]:
    """Runs a Prometheus with the samples of these lines of OpenMetrics text; yields its address.

    A sample of any age is kept; answers never change. The samples are removed from `folder` in the end.
    """
    programs = ensure(os.environ, ("prometheus", "promtool"))
    text, data = folder / "samples.txt", folder / "data"
    with text.open("w") as out:
        out.writelines(lines)
        out.write("# EOF\n")
    made = ("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(data))
    subprocess.run(
        [programs.path("promtool"), *made], check=True, capture_output=True, timeout=BLOCKS_SECONDS
    )
    text.unlink()
    (folder / "prometheus.yml").write_text("{}\n")
    with PortBlock.reserve(random.SystemRandom()).guard as guard:
        children = Children.start()
        try:
            url = f"http://{LOOPBACK}:{PortBlock(guard).take()}"
            children.spawn("prometheus", _command(programs.path("prometheus"), folder, url), env={})
            wait(lambda: _ready(url), READY_SECONDS, "Prometheus is ready")
            yield url
        finally:
            children.close()
            shutil.rmtree(data, ignore_errors=True)


def _command(program: str, folder: Path, url: str) -> Sequence[str]:
    return (
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--log.level=warn",
    )


def _ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=2).ok
    except requests.RequestException:
        return False
