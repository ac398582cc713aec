"""etcd put back from a copy while keeper and webhooks go on with what they know; a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import wait
from sandbox.install import install_chart
from tests.quota.conftest import GPU, QuotaSite, pod
from tests.restore import EtcdCopy

if TYPE_CHECKING:
    from collections.abc import Sequence

HARD = 4
CLIENTS = 8
AGAIN = (409, 429, 500, 503)
"""The server is new, or nobody can tell yet."""


class Restored:
    """A cluster whose API objects can be put back to a moment of before."""

    def __init__(self, site: QuotaSite) -> None:
        self.site = site
        self._copy = EtcdCopy(site.sandbox)

    def copy(self) -> None:
        """Takes the copy."""
        self._copy.take()

    def put_back(self) -> None:
        """Puts the copy back while everybody sleeps."""
        self._copy.put_back(["quota", *self.site.installation.webhooks])

    def pods(self, namespace: str) -> set[str]:
        """The names of the pods of a namespace."""
        listed = self.site.sandbox.api().list(f"/api/v1/namespaces/{namespace}/pods")
        return {one["metadata"]["name"] for one in listed}

    def rush(self, namespace: str, names: Sequence[str]) -> int:
        """Lets clients create pods all at once, again and again until each is told yes or no."""
        path = f"/api/v1/namespaces/{namespace}/pods"

        def create(name: str) -> bool:
            last = 0

            def told() -> bool:
                nonlocal last
                last = self.site.sandbox.api().raw("POST", path, pod(name)).status
                assert last in (201, 403, *AGAIN), last
                return last in (201, 403)

            wait(told, 60, f"{name} is let in or refused", poll=0.3)
            return last == 201

        with ThreadPoolExecutor(CLIENTS) as pool:
            return sum(pool.map(create, names))

    def fill(self, namespace: str) -> int:
        """Lets more clients try, and gives the number of pods that there are."""
        there = self.pods(namespace)
        self.rush(
            namespace, [name for name in (f"q{number}" for number in range(CLIENTS)) if name not in there]
        )
        return len(self.pods(namespace))

    def delete(self, namespace: str, name: str) -> None:
        """Deletes a pod at once."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self.site.sandbox.api().delete(path, {"gracePeriodSeconds": 0})


@pytest.fixture
def restored(kubernetes: str) -> Iterator[Restored]:
    """Two replicas of the webhook and a keeper, under `enforce`."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as sandbox:
        # A first installation would let pods pass for as long as the webhooks are not seen to be ready again.
        closed = {"webhook": {"failClosed": True}}
        values = {"profile": "enforce", "quota": {"enabled": True, "settle": "3s"}, **closed}
        installation = install_chart(sandbox, values)
        site = QuotaSite(installation)
        site.start_keeper()
        installation.start_webhooks(2, ["--drain=1s"])
        yield Restored(site)
        site.stop_keepers()
        installation.stop_webhooks(seconds=2)


@pytest.mark.real
def test_a_restore_of_etcd_lets_nobody_in_too_many(restored: Restored) -> None:
    """Pods, ledger and versions go back; caches do not. The ledger follows the pods that are there."""
    site, api = restored.site, restored.site.sandbox.api()
    for name in ("team", "other"):
        api.create_namespace(name)
    site.make_quota("restored", ["team"], hard=HARD)
    assert restored.rush("team", ["a", "b"]) == 2
    site.wait(lambda: not site.status("restored").get("reservations"), "both are counted")
    restored.copy()
    assert restored.rush("team", ["c", "d"]) == 2
    restored.delete("team", "a")
    site.wait(lambda: site.used("restored") == HARD - 1, "one has given back")
    restored.rush("team", ["e"])
    site.wait(lambda: site.status("restored").get("used") == {"*": {GPU: HARD}}, "it is full")
    before = int(api.get("/api/v1/namespaces/team/pods")["metadata"]["resourceVersion"])
    restored.put_back()
    assert int(api.get("/api/v1/namespaces/team/pods")["metadata"]["resourceVersion"]) < before
    assert restored.pods("team") == {"a", "b"}
    # Eight at once, to replicas and a keeper that know the world of before.
    admitted = restored.rush("team", [f"p{number}" for number in range(CLIENTS)])
    assert admitted <= HARD - 2
    wait(lambda: restored.fill("team") >= HARD, 60, "whoever comes again finds what is left")
    assert len(restored.pods("team")) == HARD
    site.wait(lambda: site.status("restored").get("used") == {"*": {GPU: HARD}}, "the ledger is right", 60)
    assert not site.status("restored").get("over")
    # Giving back works, too, and so does a quota that was never there before.
    restored.delete("team", "a")
    site.wait(lambda: site.used("restored") == HARD - 1, "it is given back", 60)
    site.make_quota("new", ["other"], hard=1)
    assert restored.rush("other", [f"p{number}" for number in range(4)]) == 1
