"""Both replicas are replaced under load, as a Deployment does it, and no creation fails or misses its terms.

Nobody takes a replica out of the Service: it says itself that it is not ready, the balancer follows within
its probe, and connections that stay are answered until the API server has left them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.deadline import wait

if TYPE_CHECKING:
    from sandbox.api import Reply
    from tests.webhook.conftest import Site

POD: dict[str, Any] = {
    "metadata": {"generateName": "p-"},
    "spec": {
        "restartPolicy": "Never",
        "schedulerName": "nobody",
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    },
}
CLIENTS = 6
POLICY = "gpu-tenure.io/policy"
DRAIN = "--drain=3s"
REPLICAS = 2
PROGRESS = 40
"""Creations that are waited for before and after each step."""


class Load:
    """Clients that create GPU pods without a pause, and what they were answered."""

    def __init__(self, site: Site, namespace: str) -> None:
        self.replies: list[Reply] = []
        self._site = site
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs meanwhile; an exception of a client is raised at the end."""
        with ThreadPoolExecutor(CLIENTS) as clients:
            sent: list[Future[None]] = [clients.submit(self._create) for _ in range(CLIENTS)]
            try:
                yield
            finally:
                self._stop.set()
            for one in sent:
                one.result(timeout=60)

    def goes_on(self) -> None:
        """Returns when some more creations have been answered."""
        begun = len(self.replies)
        wait(lambda: len(self.replies) >= begun + PROGRESS, 60, "the load goes on")

    def failures(self) -> list[str]:
        """What was refused, or let in without terms."""
        refused = [reply.text for reply in self.replies if reply.status != 201]
        bare = [
            f"{reply.json['metadata']['name']} has no terms"
            for reply in self.replies
            if reply.status == 201 and POLICY not in (reply.json["metadata"].get("labels") or {})
        ]
        return refused + bare

    def _create(self) -> None:
        while not self._stop.is_set():
            self.replies.append(self._site.create(self._path, POD))


@pytest.fixture
def replicas(site: Site) -> tuple[str, ...]:
    """The names of two replicas under enforce, where a review that is lost refuses a pod."""
    site.set_profile("enforce")
    missing = REPLICAS - len(site.installation.webhooks)
    if missing > 0:
        site.installation.start_webhooks(missing, [DRAIN])
    site.share_backends()
    return tuple(site.installation.webhooks)


def test_a_rolling_restart_of_both_replicas_loses_no_creation(
    site: Site, selected: str, replicas: tuple[str, ...]
) -> None:
    """One replica more, then one less, until none of the old ones is left."""
    load = Load(site, selected)
    with load.running():
        load.goes_on()
        for old in replicas:
            site.installation.start_webhooks(1, [DRAIN])
            site.share_backends()
            load.goes_on()
            leaving = site.installation.webhooks[old]
            site.sandbox.stop(old, seconds=30)
            balancers = (site.mutating, site.validating)
            assert all(leaving not in balancer.ready_backends for balancer in balancers)
            load.goes_on()
    assert len(replicas) == REPLICAS
    assert not any(site.sandbox.running(old) for old in replicas)
    assert load.failures() == []
