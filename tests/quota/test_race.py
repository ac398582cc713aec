"""Hundreds of creations at once under a quota of eight: never more, whatever breaks; in the end eight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from sandbox.faults import Fault

if TYPE_CHECKING:
    from tests.quota.conftest import Clients, Crowd, QuotaSite

HARD = 8
CLIENTS = 200
AGAIN_SECONDS = 60
With = Callable[[Callable[["Clients"], Awaitable[None]]], "Crowd"]
FIRST = asyncio.FIRST_COMPLETED
NAMES = [f"p{index}" for index in range(CLIENTS)]


def told(site: QuotaSite, crowd: Crowd, before: dict[str, float]) -> str:
    """The numbers of a race, for people."""
    after = site.counters()
    delta = {name: after[name] - before.get(name, 0) for name in after}
    decisions = sum(value for name, value in delta.items() if name.startswith("decisions"))
    conflicts, admitted = delta.get("conflicts_total", 0), len(crowd.created)
    return (
        f"{CLIENTS} creations in {crowd.seconds:.1f} s: {decisions / crowd.seconds:.0f} decisions a second, "
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


def test_three_replicas(
    replicas: QuotaSite, namespace: str, with_clients: With, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody fails: clients are admitted, refused, or told to come again."""
    replicas.make_quota("race", [namespace])
    before = replicas.counters()

    async def body(clients: Clients) -> None:
        await clients.rush(CLIENTS)

    crowd = with_clients(body)
    with capsys.disabled():
        print("\n" + told(replicas, crowd, before))
    assert crowd.failed == []
    check(replicas, "race", crowd)


def test_a_replica_is_killed(
    replicas: QuotaSite, namespace: str, with_clients: With, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a dead replica had reserved expires, and others take it."""
    replicas.make_quota("race-killed", [namespace])
    before = replicas.counters()
    victim = next(iter(replicas.installation.webhooks))

    async def body(clients: Clients) -> None:
        rush = asyncio.create_task(clients.rush(CLIENTS, attempts=3))
        await asyncio.wait({rush, asyncio.ensure_future(clients.first.wait())}, return_when=FIRST)
        replicas.sandbox.kill(victim)
        await rush
        await clients.retry_until(HARD, NAMES, AGAIN_SECONDS)

    crowd = with_clients(body)
    with capsys.disabled():
        print("\n" + told(replicas, crowd, before))
    check(replicas, "race-killed", crowd)
    del replicas.installation.webhooks[victim]


def test_a_replica_has_a_slow_connection(
    replicas: QuotaSite, namespace: str, with_clients: With, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 200 ms on each request of one replica it loses most races, but never counts wrong."""
    replicas.make_quota("race-slow", [namespace])
    with replicas.sandbox.api_proxy() as proxy:
        leaving = next(iter(replicas.installation.webhooks))
        replicas.installation.stop_webhooks([leaving], seconds=3)
        slow = replicas.sandbox.kubeconfig("webhook", proxy.url)
        replicas.installation.start_webhooks(1, ["--drain=1s", f"--kubeconfig={slow}"])
        proxy.fault = Fault("delay", seconds=0.2)
        before = replicas.counters()

        async def body(clients: Clients) -> None:
            await clients.rush(CLIENTS)
            await clients.retry_until(HARD, NAMES, AGAIN_SECONDS)

        crowd = with_clients(body)
        with capsys.disabled():
            print("\n" + told(replicas, crowd, before))
        check(replicas, "race-slow", crowd)
        replicas.installation.stop_webhooks([list(replicas.installation.webhooks)[-1]], seconds=3)
