"""What is posted, and until when it lasts there."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from reaper.alertboard import AlertBoard, Topic
from reaper.alerts import Alert, AlertName, alert_of
from tests.reaper.acting.made import MINUTE, NOON, minutes

HOLD = 300


class FakeCarrier:
    """Keeps what it was given, call by call."""

    def __init__(self) -> None:
        self.given: list[list[Alert]] = []

    def offer(self, alerts: Collection[Alert]) -> None:
        """Takes alerts."""
        self.given.append(list(alerts))


def alert(pod: str, **more: object) -> Alert:
    """Gives a warning of a pod."""
    ends = more.get("ends_at")
    return alert_of(AlertName.IDLE_WARNING, {"pod": pod}, {}, NOON, ends)  # type: ignore[arg-type]


def ends(alerts: Collection[Alert]) -> dict[str, timedelta]:
    """Gives how long after noon each alert ends, by pod."""
    return {one.labels["pod"]: one.ends_at - NOON for one in alerts if one.ends_at is not None}


def test_what_holds_is_posted_again_each_cycle() -> None:
    """With an end that moves along, so that it lapses by itself if nobody posts any more."""
    carrier = FakeCarrier()
    board = AlertBoard([carrier], HOLD)
    board.show(Topic.IDLE, [alert("a")], NOON)
    board.show(Topic.IDLE, [alert("a")], NOON + MINUTE)
    assert [ends(one) for one in carrier.given] == [{"a": minutes(5)}, {"a": minutes(6)}]


def test_what_holds_no_longer_ends_at_once() -> None:
    """And is not said again."""
    carrier = FakeCarrier()
    board = AlertBoard([carrier], HOLD)
    board.show(Topic.IDLE, [alert("a"), alert("b")], NOON)
    board.show(Topic.IDLE, [alert("b")], NOON + MINUTE)
    board.show(Topic.IDLE, [alert("b")], NOON + 2 * MINUTE)
    assert [ends(one) for one in carrier.given[1:]] == [
        {"a": minutes(1), "b": minutes(6)},
        {"b": minutes(7)},
    ]


def test_an_end_that_is_known_and_near_counts() -> None:
    """The first half of a grace ends when the second begins."""
    carrier = FakeCarrier()
    AlertBoard([carrier], HOLD).show(Topic.IDLE, [alert("a", ends_at=NOON + minutes(2))], NOON)
    assert ends(carrier.given[0]) == {"a": minutes(2)}


def test_a_cycle_that_could_not_look_says_the_same_again() -> None:
    """A Prometheus that is away ends no warning."""
    carrier = FakeCarrier()
    board = AlertBoard([carrier], HOLD)
    board.show(Topic.IDLE, [alert("a")], NOON)
    board.again(Topic.IDLE, NOON + minutes(3))
    assert ends(carrier.given[-1]) == {"a": minutes(8)}


def test_topics_do_not_end_each_other() -> None:
    """What is computed without Prometheus goes on without it."""
    carrier = FakeCarrier()
    board = AlertBoard([carrier], HOLD)
    board.show(Topic.IDLE, [alert("a")], NOON)
    board.show(Topic.DEADLINES, [alert("b")], NOON)
    assert ends(carrier.given[-1]) == {"b": minutes(5)}


def test_what_happened_is_said_until_its_own_end() -> None:
    """An Alertmanager that was away for a moment still hears of it."""
    carrier = FakeCarrier()
    board = AlertBoard([carrier], HOLD)
    board.add(alert("a", ends_at=NOON + minutes(15)))
    board.show(Topic.IDLE, [], NOON + minutes(14))
    board.show(Topic.IDLE, [], NOON + minutes(15))
    assert [ends(one) for one in carrier.given] == [{"a": minutes(15)}, {"a": minutes(15)}]


def test_what_another_process_told_ends_too() -> None:
    """A new leader, or the next single run, never showed it itself."""
    carrier = FakeCarrier()
    board = AlertBoard([carrier], HOLD)
    board.show(Topic.IDLE, [alert("b")], NOON, before=[alert("a"), alert("b")])
    assert ends(carrier.given[0]) == {"a": minutes(0), "b": minutes(5)}
