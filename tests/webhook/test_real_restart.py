"""Replicas come and go under load, and no creation of a GPU pod fails or misses its terms."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

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
CLIENTS = 4
POLICY = "gpu-tenure.io/policy"


def test_a_rolling_restart_loses_no_review(site: Site, selected: str) -> None:
    """Under enforce a lost review would refuse a pod; each replica drains before it ends."""
    site.set_profile("enforce")
    old = tuple(site.installation.webhooks)
    stop = threading.Event()
    replies: list[Reply] = []

    def create() -> None:
        while not stop.is_set():
            replies.append(site.create(f"/api/v1/namespaces/{selected}/pods", POD, dry_run=True))

    with ThreadPoolExecutor(CLIENTS) as clients:
        running = [clients.submit(create) for _ in range(CLIENTS)]
        try:
            wait(lambda: len(replies) > 20, 30, "the load runs")
            site.installation.start_webhooks(1, ["--drain=2s"])
            site.share_backends()
            begun = len(replies)
            for name in old:
                site.sandbox.stop(name)
            wait(lambda: len(replies) > begun + 50, 30, "the load goes on")
            new = tuple(name for name in site.installation.webhooks if name not in old)
            site.installation.start_webhooks(1, ["--drain=2s"])
            site.share_backends()
            begun = len(replies)
            site.installation.stop_webhooks(new)
            wait(lambda: len(replies) > begun + 50, 30, "the load goes on")
        finally:
            stop.set()
        for one in running:
            one.result(timeout=30)
    failed = [reply.text for reply in replies if reply.status != 201]
    bare = [reply for reply in replies if POLICY not in (reply.json["metadata"].get("labels") or {})]
    assert (failed, len(bare)) == ([], 0)
    assert len(replies) > 120
