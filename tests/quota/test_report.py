"""What is told of a count: numbers, an Event per pod that slipped in, nothing of quotas that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from prometheus_client import REGISTRY

from policy.gpuquota import GPUQuota, Per
from policy.ledger import Ledger, Reservation
from policy.ledger_count import HeldPod, count_pods
from quota.report import MOST_EVENTS, Reporter

GPU = "nvidia.com/gpu"
QUOTA = GPUQuota("told", "u", 1, per=Per.NAMESPACE, hard={"devices": Fraction(2), GPU: Fraction(4)})


def weigh(_: str) -> Fraction:
    """Every unit is half a card."""
    return Fraction(1, 2)


class Events:
    """Remembers what was recorded."""

    def __init__(self) -> None:
        self.about: list[str] = []

    async def record(self, regarding: Any, reason: str, action: str, note: str, type: str = "Normal") -> bool:  # noqa: A002, ARG002
        """Notes the pod."""
        self.about.append(regarding.name)
        return True


@pytest.fixture
def events() -> Events:
    """None yet."""
    return Events()


@pytest.fixture
def reporter(events: Events) -> Iterator[Reporter]:
    """A reporter that leaves no numbers behind."""
    made = Reporter(events, weigh)
    yield made
    made.forget_others(())


def pods(count: int, namespace: str = "team-a") -> list[HeldPod]:
    """Pods of one GPU each, the last one the newest."""
    return [
        HeldPod(f"{namespace}{n}", namespace, f"p{n}", None, {GPU: 1}, created=f"2025-01-01T00:00:{n:02}Z")
        for n in range(count)
    ]


def counted(some: list[HeldPod], **more: Any) -> Ledger:
    """The ledger with these pods."""
    return count_pods(QUOTA, Ledger(**more), some, ("team-a", "team-b"), "1", weigh)


def number(name: str, **labels: str) -> float | None:
    """What a metric shows."""
    return REGISTRY.get_sample_value(f"gpu_tenure_quota_{name}", labels)


async def test_the_numbers_of_a_quota(reporter: Reporter) -> None:
    """How full the fullest subject is of each limit, what is reserved, and how many are over."""
    reserved = {"r": Reservation("team-b", "r", "team-b", {GPU: 1})}
    some = [*pods(5), *pods(1, "team-b")]
    await reporter.counted(QUOTA, counted(some, reservations=reserved), some)
    assert number("fullness_ratio", quota="told", limit="devices") == 1.25
    assert number("fullness_ratio", quota="told", limit=GPU) == 1.25
    assert number("reservations", quota="told") == 1
    assert number("subjects_over", quota="told") == 1


async def test_the_newest_of_the_excess_are_told_once(reporter: Reporter, events: Events) -> None:
    """Again only if they were within the limit in between."""
    before = number("over_pods_total") or 0
    some = pods(6)
    for _ in range(3):
        await reporter.counted(QUOTA, counted(some), some)
    assert sorted(events.about) == ["p4", "p5"]
    assert number("over_pods_total") == before + 2
    await reporter.counted(QUOTA, counted(some[:4]), some[:4])
    await reporter.counted(QUOTA, counted(some), some)
    assert len(events.about) == 4


async def test_a_flood_is_told_of_its_newest(reporter: Reporter, events: Events) -> None:
    """One round writes a bounded number of Events for each limit."""
    some = [HeldPod(f"u{n}", "team-a", f"p{n}", None, {GPU: 1}, created=f"{n:05}") for n in range(400)]
    await reporter.counted(QUOTA, counted(some), some)
    assert len(set(events.about)) == MOST_EVENTS


async def test_a_quota_that_is_gone_has_no_numbers(reporter: Reporter) -> None:
    """Its last ones would stay for ever."""
    some = pods(1)
    await reporter.counted(QUOTA, counted(some), some)
    reporter.forget_others(())
    assert number("fullness_ratio", quota="told", limit="devices") is None
    assert number("reservations", quota="told") is None
    assert number("subjects_over", quota="told") is None


async def test_a_limit_that_is_gone_has_no_number(reporter: Reporter) -> None:
    """The others keep theirs."""
    some = pods(1)
    await reporter.counted(QUOTA, counted(some), some)
    fewer = GPUQuota("told", "u", 2, per=Per.NAMESPACE, hard={"devices": Fraction(2)})
    await reporter.counted(fewer, counted(some), some)
    assert number("fullness_ratio", quota="told", limit=GPU) is None
    assert number("fullness_ratio", quota="told", limit="devices") == 0.25
