"""Quotas on the real control plane: replicas of the webhook, keepers, and clients that come all at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import requests

from runtime.kube import ApiError, ApiUnreachable, KubeClient
from sandbox.deadline import monotonic, wait
from sandbox.install import Installation

QUOTAS = "/apis/gpu-tenure.io/v1alpha1/gpuquotas"
GPU = "nvidia.com/gpu"
DRAIN = "--drain=1s"
RESERVATION_SECONDS = 8
# The API server gives up a review after 5 s and stores a pod at once: eight are enough on this one.
SHORTENED = (f"--reservation={RESERVATION_SECONDS}s",)


def pod(name: str, gpus: int = 1, **metadata: Any) -> dict[str, Any]:
    """A pod with GPUs that no scheduler looks at: it exists until it is deleted."""
    resources = {"limits": {GPU: str(gpus)}}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": "nobody",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "i", "resources": resources}],
        },
    }


class QuotaSite:
    """The chart with quotas, under `enforce`; tests start the parts that they need."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.sandbox = installation.sandbox
        self.keepers: dict[str, str] = {}
        self._quotas: list[str] = []

    def make_quota(self, name: str, namespaces: Sequence[str], hard: int = 8, **spec: Any) -> None:
        """Makes a quota for some namespaces, and returns when it counts."""
        names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
        selector = {"matchExpressions": [names]}
        body = {
            "apiVersion": "gpu-tenure.io/v1alpha1",
            "kind": "GPUQuota",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": selector, "hard": {"devices": hard}, **spec},
        }
        self.sandbox.api().create(QUOTAS, body)
        self._quotas.append(name)
        self.wait(lambda: set(namespaces) <= set(self.status(name).get("namespaces") or ()), f"{name} counts")

    def wait(self, predicate: Callable[[], object], what: str, seconds: float = 30) -> None:
        """Waits; a failure shows what the keepers said last."""
        try:
            wait(lambda: bool(predicate()), seconds, what)
        except TimeoutError as error:
            for name in self.keepers:
                error.add_note(f"{name}: {self.sandbox.log(name).read_text()[-3000:]}")
            raise

    def status(self, name: str) -> dict[str, Any]:
        """The ledger of a quota as JSON."""
        return self.sandbox.api().get(f"{QUOTAS}/{name}").get("status") or {}

    def used(self, name: str, subject: str = "*") -> int:
        """GPUs that a subject holds, counted and reserved."""
        status = self.status(name)
        reserved = [
            one["counts"].get(GPU, 0)
            for one in (status.get("reservations") or {}).values()
            if one["subject"] == subject
        ]
        return int((status.get("used") or {}).get(subject, {}).get(GPU, 0)) + sum(reserved)

    def start_keeper(self, name: str = "quota", *args: str) -> str:
        """Starts a keeper with shortened times."""
        self.keepers[name] = self.installation.start_quota(*SHORTENED, *args, name=name)
        return self.keepers[name]

    def stop_keepers(self) -> None:
        """Ends all keepers."""
        for name in self.keepers:
            self.sandbox.stop(name)
        self.keepers.clear()

    def clean(self) -> None:
        """Removes the quotas of a test."""
        for name in self._quotas:
            self.sandbox.api().delete(f"{QUOTAS}/{name}")
        self._quotas.clear()

    def counters(self) -> dict[str, float]:
        """The quota counters of all replicas of the webhook, added up; without those that are gone."""
        total: dict[str, float] = {}
        for backend in self.installation.webhooks.values():
            try:
                text = requests.get(backend.ready_url.replace("/readyz", "/metrics"), timeout=5).text
            except requests.RequestException:
                continue
            for name, value in re.findall(r"^gpu_tenure_webhook_quota_(\S+?) (\S+)$", text, re.MULTILINE):
                total[name] = total.get(name, 0) + float(value)
        return total


@pytest.fixture(scope="module")
def quota_site(installation: Installation) -> Iterator[QuotaSite]:
    """The chart with quotas; put back afterwards."""
    installation.stop_webhooks(seconds=2)
    installation.upgrade({"profile": "enforce", "quota": {"enabled": True}})
    site = QuotaSite(installation)
    try:
        yield site
    finally:
        site.stop_keepers()
        installation.stop_webhooks(seconds=2)
        installation.upgrade({"profile": "observe", "quota": {"enabled": False}})


@pytest.fixture
def site(quota_site: QuotaSite) -> Iterator[QuotaSite]:
    """The same for one test, which leaves no quotas behind."""
    yield quota_site
    quota_site.clean()


@dataclass
class Crowd:
    """What many clients saw, and how many pods there ever were at once."""

    created: list[str] = field(default_factory=list)
    refused: int = 0
    later: int = 0
    failed: list[str] = field(default_factory=list)
    most: int = 0
    seconds: float = 0.0


class Clients:
    """Creates pods in one namespace as many clients do that come again when they are told to."""

    def __init__(self, site: QuotaSite, namespace: str, client: KubeClient) -> None:
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._client = client
        self._site = site
        self.crowd = Crowd()
        self.first = asyncio.Event()
        self._present: set[str] = set()

    async def rush(self, count: int, attempts: int = 12) -> Crowd:
        """Lets `count` clients create a pod each, all at once."""
        begun = monotonic()
        await asyncio.gather(*(self._create(f"p{index}", attempts) for index in range(count)))
        self.crowd.seconds += monotonic() - begun
        return self.crowd

    async def retry_until(self, count: int, refused: Sequence[str], seconds: float) -> None:
        """Lets refused clients come again until there are `count` pods."""
        end = monotonic() + seconds
        waiting = [name for name in refused if name not in self.crowd.created]
        while len(self.crowd.created) < count and monotonic() < end:
            await asyncio.gather(*(self._create(name, 1) for name in waiting[:20]))
            waiting = [name for name in waiting if name not in self.crowd.created]
            await asyncio.sleep(0.5)

    async def take_turns(self, count: int) -> None:
        """Lets each of `count` clients come again until it has had a pod, which it deletes at once."""
        begun = monotonic()
        await asyncio.gather(*(self._take_turn(f"p{index}") for index in range(count)))
        self.crowd.seconds += monotonic() - begun

    async def _take_turn(self, name: str) -> None:
        while name not in self.crowd.created:
            await self._create(name, 3)
            if self.crowd.failed:
                return
            await asyncio.sleep(0.2)
        await self._client.request("DELETE", f"{self._path}/{name}", body={"gracePeriodSeconds": 0})

    async def watch(self) -> None:
        """Counts the pods that exist at each moment, from before the first."""
        version = msgspec.json.decode((await self._client.request("GET", self._path)).body)["metadata"]
        query = {"watch": True, "resourceVersion": version["resourceVersion"]}
        async with aclosing(self._client.stream(self._path, query)) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                name = event["object"]["metadata"]["name"]
                (self._present.discard if event["type"] == "DELETED" else self._present.add)(name)
                self.crowd.most = max(self.crowd.most, len(self._present))

    async def _create(self, name: str, attempts: int) -> None:
        for _ in range(attempts):
            try:
                await self._client.request("POST", self._path, body=pod(name), timeout=30)
                self.crowd.created.append(name)
                self.first.set()
            except ApiError as error:
                if error.status == 429:
                    self.crowd.later += 1
                    await asyncio.sleep(error.retry_after or 1)
                    continue
                if error.status == 409:
                    self.crowd.created.append(name)
                elif error.status == 403:
                    self.crowd.refused += 1
                else:
                    self.crowd.failed.append(str(error))
            except ApiUnreachable as error:
                self.crowd.failed.append(str(error))
            return


async def abort_connections() -> None:
    """Ends TLS connections at once: that of a watch would wait half a minute for the server's farewell."""
    for transport in [*getattr(asyncio.get_running_loop(), "_transports", {}).values()]:
        transport.abort()
    # What is aborted tells its protocol, and then closes its socket, in the next turns.
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def with_clients(site: QuotaSite, namespace: str) -> Callable[[Callable[[Clients], Awaitable[None]]], Crowd]:
    """Runs something with clients while all pods of the namespace are watched."""

    async def run(body: Callable[[Clients], Awaitable[None]]) -> Crowd:
        async with await KubeClient.connect(site.sandbox.kubeconfig(), timeout=30) as client:
            clients = Clients(site, namespace, client)
            watching = asyncio.create_task(clients.watch())
            try:
                await body(clients)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        await abort_connections()
        return clients.crowd

    return lambda body: asyncio.run(run(body))
