"""Creations of GPU pods without a pause, by server-side dry run: all of admission, and nothing is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from sandbox.api import Api, Reply
from sandbox.deadline import wait

DRY_RUN = "/api/v1/namespaces/default/pods?dryRun=All"
PER_SECOND = 50
CLIENTS = 8
GPU_POD: dict[str, Any] = {
    "metadata": {"generateName": "p-"},
    "spec": {
        "restartPolicy": "Never",
        "schedulerName": "nobody",
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    },
}
CPU_POD: dict[str, Any] = {
    "metadata": {"generateName": "p-"},
    "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "i"}]},
}
POLICY = "gpu-tenure.io/policy"


class PodLoad:
    """Pods, 50 a second where the machine can, and what their creations were answered."""

    def __init__(self, api: Api, pod: Any = None) -> None:
        self.replies: list[Reply] = []
        self._api = api
        self._pod = pod or GPU_POD
        self._stop = threading.Event()
        self._turns = iter(range(10**9))
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._ended: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs meanwhile; an exception of a client is raised at the end."""
        self._began = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as clients:
            sent: list[Future[None]] = [clients.submit(self._create) for _ in range(CLIENTS)]
            try:
                yield
            finally:
                self._ended = time.monotonic()
                self._stop.set()
            for one in sent:
                one.result(timeout=60)

    def per_second(self) -> float:
        """How many creations were answered each second, from the beginning to the end."""
        return len(self.replies) / ((self._ended or time.monotonic()) - self._began)

    def goes_on(self, count: int = PER_SECOND) -> None:
        """Returns when so many more creations were answered."""
        before = len(self.replies)
        wait(lambda: len(self.replies) >= before + count, 60, "creations go on")

    def refused(self) -> list[str]:
        """What was refused."""
        return [reply.text for reply in self.replies if reply.status != 201]

    def without_terms(self) -> int:
        """How many were let in without terms."""
        admitted = [reply.json["metadata"] for reply in self.replies if reply.status == 201]
        return sum(POLICY not in (metadata.get("labels") or {}) for metadata in admitted)

    def failures(self) -> list[str]:
        """What was refused, or let in without terms."""
        return self.refused() + ["no terms"] * self.without_terms()

    def _create(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                due = self._began + next(self._turns) / PER_SECOND
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            self.replies.append(self._api.raw("POST", DRY_RUN, self._pod))
