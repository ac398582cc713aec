"""Measures how the pods of a large cluster are read and followed, beside kubernetes_asyncio's own models."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median

import msgspec

from bench.measures import Measure
from bench.pod_reader import Reading
from certs.issue import issue_ca, issue_leaf
from sandbox.deadline import utc_now
from sandbox.ports import LOOPBACK
from sandbox.startup import ROOT

PODS = 150_000
EVENTS = 20_000
FEW_PODS = 6_000
FEW_EVENTS = 2_000
"""For the library's models, which take fifty times as long: its figures are told for one pod."""

ROUNDS = 3
READER_SECONDS = 300
LIST_LIMIT_SECONDS = 3.0
MEMORY_LIMIT_MB = 1000.0
EVENT_LIMIT_MICROSECONDS = 20.0
MODELS = "kubernetes_asyncio's models"


def measure_watching(say: Callable[[str], None]) -> list[Measure]:
    """Reads the large cluster, and a small one in both ways, in interleaved rounds."""
    with tempfile.TemporaryDirectory(prefix="gpu-tenure-bench-") as folder:
        say(f"listing {PODS:,} pods and following {EVENTS:,} changes, {ROUNDS} rounds")
        with served(Path(folder), PODS, EVENTS) as port:
            large = [read(Path(folder), port, "any", "ours", PODS, EVENTS) for _ in range(ROUNDS)]
        say(f"the same with {FEW_PODS:,} pods in both ways, {ROUNDS} rounds")
        ours, theirs, gpu = [], [], []
        with served(Path(folder), FEW_PODS, FEW_EVENTS) as port:
            for _ in range(ROUNDS):
                ours.append(read(Path(folder), port, "any", "ours", FEW_PODS, FEW_EVENTS))
                theirs.append(read(Path(folder), port, "any", "models", FEW_PODS, FEW_EVENTS))
                gpu.append(read(Path(folder), port, "gpu", "ours", FEW_PODS, FEW_EVENTS))
    return [
        Measure(
            f"list, decode and keep {PODS:,} pods, {large[0].kept:,} with GPUs (CPU, TLS included)",
            median(one.list_seconds for one in large),
            "s",
            LIST_LIMIT_SECONDS,
        ),
        Measure(
            "… resident memory at most, interpreter included",
            max(one.peak_bytes for one in large) / 1e6,
            "MB",
            MEMORY_LIMIT_MB,
        ),
        Measure(
            "a change of a pod, one in fifteen with GPUs (CPU)",
            median(micro_per_event(one) for one in large),
            "µs",
            EVENT_LIMIT_MICROSECONDS,
        ),
        Measure("… of a GPU pod", median(micro_per_event(one) for one in gpu), "µs"),
        compared("list, decode and keep, per pod (CPU)", micro_per_pod, ours, theirs),
        compared("a change of a pod (CPU)", micro_per_event, ours, theirs),
    ]


def compared(
    what: str, figure: Callable[[Reading], float], ours: list[Reading], theirs: list[Reading]
) -> Measure:
    """Gives the medians of both ways on the same small cluster."""
    return Measure(what, median(map(figure, ours)), "µs", None, MODELS, median(map(figure, theirs)))


def micro_per_pod(reading: Reading) -> float:
    """Gives the microseconds of CPU that one pod of the list took."""
    return reading.list_seconds / reading.pods * 1e6


def micro_per_event(reading: Reading) -> float:
    """Gives the microseconds of CPU that one change took."""
    return reading.event_seconds / reading.events * 1e6


@contextmanager
def served(folder: Path, pods: int, events: int) -> Iterator[int]:
    """Runs the simulated API server; yields its port."""
    now, life = utc_now(), timedelta(days=1)
    authority = issue_ca("bench", now, life)
    leaf = issue_leaf(authority, [], [LOOPBACK], now, life)
    files = {"ca.crt": authority.cert_pem, "tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    tls = ("--certificate", str(folder / "tls.crt"), "--key", str(folder / "tls.key"))
    argv = module("bench.pod_server", "--pods", str(pods), "--events", str(events), *tls)
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline() if server.stdout else "")
        finally:
            server.terminate()


def read(folder: Path, port: int, kind: str, way: str, pods: int, events: int) -> Reading:
    """Reads the cluster once in a process of its own.

    Raises:
        subprocess.SubprocessError: it failed, or took too long.
    """
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(f"https://{LOOPBACK}:{port}/{kind}", folder / "ca.crt"))
    flags = ("--kubeconfig", str(kubeconfig), "--pods", str(pods), "--events", str(events))
    argv = module("bench.pod_reader", way, *flags)
    ran = subprocess.run(
        argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=READER_SECONDS, check=True
    )
    return msgspec.json.decode(ran.stdout.splitlines()[-1], type=Reading)


def kubeconfig_of(server: str, authority: Path) -> str:
    """Writes a kubeconfig for a server that asks for no rights."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [
            {"name": "bench", "cluster": {"server": server, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "bench", "user": {"token": "none"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
    return msgspec.json.encode(config).decode()


def module(name: str, *arguments: str) -> list[str]:
    """Gives the command that runs a module with this interpreter."""
    return [sys.executable, "-m", name, *arguments]
