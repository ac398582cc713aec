"""Hundreds of creations at once under a quota of eight: never more, whatever breaks; in the end eight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from sandbox.faults import Fault

if TYPE_CHECKING:
    from tests.quota.conftest import Clients, Crowd, QuotaSite

HARD = 8
CLIENTS = 200
AGAIN_SECONDS = 60
TURNS = 40
Body = Callable[["Clients"], Awaitable[None]]
With = Callable[[Body], "Crowd"]
Tell = Callable[[str], None]
NAMES = [f"p{index}" for index in range(CLIENTS)]


def told(site: QuotaSite, crowd: Crowd, before: dict[str, float]) -> str:
    """The numbers of a race, for people."""
    after = site.counters()
    delta = {name: after[name] - before.get(name, 0) for name in after}
    decisions = sum(value for name, value in delta.items() if name.startswith("decisions"))
    conflicts, admitted = delta.get("conflicts_total", 0), len(crowd.created)
    return (
        f"{decisions:.0f} decisions in {crowd.seconds:.1f} s, {decisions / crowd.seconds:.0f} a second: "
        f"{conflicts:.0f} conflicts for {admitted} admissions ({conflicts / max(admitted, 1):.2f} each), "
        f"{delta.get('writes_total', 0):.0f} writes, {crowd.later} told to come again, "
        f"{crowd.refused} refused, {len(crowd.failed)} failed; at most {crowd.most} pods at once"
    )


def check(site: QuotaSite, quota: str, crowd: Crowd) -> None:
    """Never too many, in the end exactly as many as fit, and the ledger says so."""
    assert crowd.most == HARD
    assert len(set(crowd.created)) == HARD
    site.wait(lambda: site.used(quota) == HARD, "the ledger agrees")
    site.wait(lambda: not site.status(quota).get("reservations"), "nothing is reserved any more")


@pytest.fixture
def replicas(site: QuotaSite) -> QuotaSite:
    """Three replicas of the webhook, and a keeper."""
    if not site.keepers:
        site.start_keeper()
    missing = 3 - len(site.installation.webhooks)
    if missing > 0:
        site.installation.start_webhooks(missing, ["--drain=1s"])
    return site


@pytest.fixture
def slow(replicas: QuotaSite) -> Iterator[str]:
    """One of the three waits 200 ms for each answer of the API server; its name."""
    installation = replicas.installation
    with replicas.sandbox.api_proxy() as proxy:
        installation.stop_webhooks([next(iter(installation.webhooks))], seconds=3)
        kubeconfig = replicas.sandbox.kubeconfig("webhook", proxy.url)
        # Slow from its start: a fault that begins later would cut the watches that are open.
        proxy.fault = Fault("delay", seconds=0.2)
        installation.start_webhooks(1, ["--drain=1s", f"--kubeconfig={kubeconfig}"])
        name = list(installation.webhooks)[-1]
        yield name
        if name in installation.webhooks:
            installation.stop_webhooks([name], seconds=3)


def run(replicas: QuotaSite, with_clients: With, body: Body, tell: Tell) -> Crowd:
    """Runs clients, and prints the numbers."""
    before = replicas.counters()
    crowd = with_clients(body)
    tell(told(replicas, crowd, before))
    return crowd


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Prints past pytest."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}")

    return say


def test_three_replicas(replicas: QuotaSite, namespace: str, with_clients: With, tell: Tell) -> None:
    """Nobody fails: clients are admitted, refused, or told to come again."""
    replicas.make_quota("race", [namespace])

    async def body(clients: Clients) -> None:
        await clients.rush(CLIENTS)

    crowd = run(replicas, with_clients, body, tell)
    assert crowd.failed == []
    check(replicas, "race", crowd)


def test_a_replica_has_a_slow_connection(
    replicas: QuotaSite, slow: str, namespace: str, with_clients: With, tell: Tell
) -> None:
    """It loses most races, but never counts wrong, and nobody fails."""
    assert slow in replicas.installation.webhooks
    replicas.make_quota("race-slow", [namespace])

    async def body(clients: Clients) -> None:
        await clients.rush(CLIENTS)
        await clients.retry_until(HARD, NAMES, AGAIN_SECONDS)

    crowd = run(replicas, with_clients, body, tell)
    assert crowd.failed == []
    check(replicas, "race-slow", crowd)


def test_a_slow_replica_is_killed(
    replicas: QuotaSite, slow: str, namespace: str, with_clients: With, tell: Tell
) -> None:
    """What the dead one had reserved expires, and others take it."""
    replicas.make_quota("race-killed", [namespace])

    async def body(clients: Clients) -> None:
        rush = asyncio.create_task(clients.rush(CLIENTS, attempts=3))
        first = asyncio.ensure_future(clients.first.wait())
        await asyncio.wait({rush, first}, return_when=asyncio.FIRST_COMPLETED)
        replicas.sandbox.kill(slow)
        await rush
        first.cancel()
        await clients.retry_until(HARD, NAMES, AGAIN_SECONDS)

    crowd = run(replicas, with_clients, body, tell)
    del replicas.installation.webhooks[slow]
    check(replicas, "race-killed", crowd)


def test_pods_come_and_go(replicas: QuotaSite, namespace: str, with_clients: With, tell: Tell) -> None:
    """Everybody gets a turn, and at no moment there are too many."""
    replicas.make_quota("race-turns", [namespace], hard=4)

    async def body(clients: Clients) -> None:
        await clients.take_turns(TURNS)

    crowd = run(replicas, with_clients, body, tell)
    assert crowd.most == 4
    assert len(set(crowd.created)) == TURNS
    assert crowd.failed == []
    replicas.wait(lambda: replicas.used("race-turns") == 0, "all have given back")


def test_the_leading_keeper_is_killed(
    replicas: QuotaSite, namespace: str, with_clients: With, tell: Tell
) -> None:
    """Nobody gives back until another leads; then it counts what is there, and goes on."""
    replicas.make_quota("race-keeper", [namespace])
    (leader,) = replicas.keepers
    replicas.start_keeper("quota-next")

    async def body(clients: Clients) -> None:
        turns = asyncio.create_task(clients.take_turns(TURNS))
        await clients.first.wait()
        replicas.sandbox.kill(leader)
        await turns
        await clients.rush(CLIENTS)
        await clients.retry_until(TURNS + HARD, NAMES, AGAIN_SECONDS)

    crowd = run(replicas, with_clients, body, tell)
    del replicas.keepers[leader]
    assert crowd.failed == []
    assert crowd.most == HARD
    assert len(crowd.created) == TURNS + HARD
    replicas.wait(lambda: replicas.used("race-keeper") == HARD, "the ledger agrees")
    replicas.wait(lambda: not replicas.status("race-keeper").get("reservations"), "all are counted")
    assert "lease gained" in replicas.sandbox.log("quota-next").read_text()
