"""Two candidates for one Lease on the real API server, with a fault proxy or a wrong clock between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from runtime.clock import SystemClock
from runtime.kube import KubeClient
from runtime.lease import Elector
from sandbox.cluster import Sandbox
from sandbox.faults import Fault

Start = Callable[[Any], asyncio.Task[Any]]
Eventually = Callable[..., Awaitable[None]]
FAULTS = {
    "hang": Fault("hang"),
    "reset": Fault("reset"),
    "502 page": Fault("html"),
    "500": Fault("status", status=500),
    "answers 9 s late": Fault("delay", seconds=9),
}
ACTION_SECONDS = 0.05
LOSS_SECONDS = 10.0
HAND_OVER_SECONDS = 40.0


@dataclass
class SteppedClock:
    """The machine's clock, with a wall clock that somebody sets."""

    offset: timedelta = timedelta()

    def now(self) -> datetime:
        """Returns the wall-clock time as it was set."""
        return SystemClock().now() + self.offset

    def monotonic(self) -> float:
        """Returns the machine's monotonic time, which no setting moves."""
        return SystemClock().monotonic()


@dataclass
class Worker:
    """A candidate whose work acts as often as it may, and asks right before each action, as the reaper does.

    Its actions would reach the world by another way than the proxy: only the elector holds them back.
    """

    client: KubeClient
    namespace: str
    lease: str
    identity: str
    clock: SteppedClock = field(default_factory=SteppedClock)
    actions: list[float] = field(default_factory=list)
    gained: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Makes the elector."""
        self.elector = Elector(
            self.client,
            self.namespace,
            self.lease,
            self.identity,
            clock=self.clock,
            on_change=lambda leading: (self.gained if leading else self.lost).append(self.clock.monotonic()),
        )

    async def run(self) -> None:
        """Campaigns for ever."""
        await self.elector.run(self.work)

    async def work(self) -> None:
        """Acts until it is cancelled."""
        while True:
            if self.elector.is_leader():
                self.actions.append(self.clock.monotonic())
            await asyncio.sleep(ACTION_SECONDS)


async def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Waits for a condition with a deadline."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - the condition is of the code under test
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within {seconds:.0f} s: {what}")


async def lose(
    name: str, fault: Fault, sandbox: Sandbox, namespace: str, start: Start
) -> tuple[Worker, Worker]:
    """Lets a leader lose its Lease to another by one fault, and then lets the fault end."""
    with sandbox.api_proxy() as proxy:
        behind = await KubeClient.connect(sandbox.kubeconfig("admin", proxy.url))
        beside = await KubeClient.connect(sandbox.kubeconfig("admin"))
        async with behind, beside:
            lease = f"by-{list(FAULTS).index(name)}"
            one, two = (
                Worker(client, namespace, lease, who) for client, who in ((behind, "one"), (beside, "two"))
            )
            tasks = [start(one.run())]
            await until(one.elector.is_leader, 20, f"{name}: one leads")
            tasks.append(start(two.run()))
            await until(lambda: two.elector.leader == "one", 20, f"{name}: two follows")
            broken_at = one.clock.monotonic()
            proxy.fault = fault
            await until(lambda: one.lost, 2 * LOSS_SECONDS, f"{name}: one has lost")
            assert one.lost[0] - broken_at < LOSS_SECONDS + 3, name
            await until(lambda: two.gained, HAND_OVER_SECONDS, f"{name}: two leads")
            proxy.fault = Fault()
            # What the proxy still held back arrives now, and takes nothing from the new leader.
            before = len(two.actions)
            await until(lambda: len(two.actions) > before + 60, 20, f"{name}: two goes on")
            assert two.lost == [], name
            assert len(one.gained) == 1, name
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return one, two


async def test_no_action_after_the_lease_is_lost(sandbox: Sandbox, namespace: str, start: Start) -> None:
    """Whatever the API server does to the leader, its last action comes before another's first.

    All faults at the same time, each with a Lease, a proxy and two candidates of its own.
    """
    pairs = await asyncio.gather(
        *(lose(name, fault, sandbox, namespace, start) for name, fault in FAULTS.items())
    )
    for name, (one, two) in zip(FAULTS, pairs, strict=True):
        assert one.actions, name
        assert max(one.actions) <= one.lost[0], name
        assert max(one.actions) < two.gained[0], name
        assert min(two.actions) >= two.gained[0], name


@pytest.mark.parametrize("step", [timedelta(days=1), timedelta(days=-1)], ids=["forward", "backward"])
async def test_a_wall_clock_that_is_set_moves_no_lease(
    step: timedelta, sandbox: Sandbox, namespace: str, start: Start
) -> None:
    """A leader whose clock jumps keeps leading; a follower whose clock jumps takes nothing."""
    async with await KubeClient.connect(sandbox.kubeconfig("admin")) as client:
        one, two = (Worker(client, namespace, "clock", who) for who in ("one", "two"))
        start(one.run())
        await until(one.elector.is_leader, 20, "one leads")
        start(two.run())
        await until(lambda: two.elector.leader == "one", 20, "two follows")
        versions = {await version(client, namespace)}
        for clock, offset in ((one.clock, step), (two.clock, step), (one.clock, timedelta())):
            clock.offset = offset
            versions.add(await renewed(client, namespace, versions))
            assert one.elector.is_leader()
            assert not two.elector.is_leader()
        assert (len(one.gained), one.lost, two.gained) == (1, [], [])


async def test_a_leader_that_dies_with_a_wrong_clock_is_followed_all_the_same(
    sandbox: Sandbox, namespace: str, start: Start
) -> None:
    """Its last renewal claims to be of tomorrow; who follows counts by its own watch."""
    async with await KubeClient.connect(sandbox.kubeconfig("admin")) as client:
        one, two = (Worker(client, namespace, "dead", who) for who in ("one", "two"))
        one.clock.offset = timedelta(days=1)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        # What a killed leader leaves behind: a Lease that nobody renews.
        assert await one.elector._attempt()
        begun = one.clock.monotonic()
        start(two.run())
        await until(lambda: two.gained, 20, "two leads")
        assert 14 <= two.gained[0] - begun <= 20
        lease = await client.get(f"{path}/dead", dict[str, Any])
        assert lease["spec"]["holderIdentity"] == "two"
        assert lease["spec"]["leaseTransitions"] == 1


async def renewed(client: KubeClient, namespace: str, before: set[str]) -> str:
    """Waits for a renewal that was not seen before, and gives its version."""
    async with asyncio.timeout(10):
        while (found := await version(client, namespace)) in before:  # noqa: ASYNC110 - of the server
            await asyncio.sleep(0.1)
    return found


async def version(client: KubeClient, namespace: str) -> str:
    """The version of the Lease as stored: it changes with each renewal."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/clock"
    lease = await client.get(path, dict[str, Any])
    return str(lease["metadata"]["resourceVersion"])
