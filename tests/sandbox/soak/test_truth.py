"""What the soak holds against a reaper: it must find every wrong eviction, and no right one wrong."""

from __future__ import annotations

import pytest

from sandbox.soak.truth import AFTER_SECONDS, SLACK_SECONDS, Eviction, Life, life_of, wrongs

T = 1000.0


def life(name: str = "p", uid: str = "u", created: float = 0.0, *spans: tuple[float, bool]) -> Life:
    """A pod that may be evicted from its creation on, or as the spans say."""
    return Life("soak", name, uid, created, list(spans) or [(created, True)])


def found(one: Life, at: float = T, alive: bool = False, records: int = 1) -> list[str]:
    """What is wrong about one eviction of one pod."""
    return wrongs([one], [Eviction("soak", one.name, at)], [one.uid] * records, [one.uid] if alive else [])


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        pytest.param([(0, True)], "", id="idle from its creation on"),
        pytest.param([(0, False)], "was in use", id="in use from its creation on"),
        pytest.param([(0, True), (T - 9, False)], "was in use", id="woke up before the last look"),
        pytest.param([(0, True), (T - 3, False)], "", id="woke up when it was too late to see"),
        pytest.param([(0, False), (T - AFTER_SECONDS, True)], "", id="asleep for the whole window"),
        pytest.param(
            [(0, False), (T - 20, True)],
            "was in use",
            id="asleep for a part of the window, which is too short",
        ),
        pytest.param(
            [(0, True), (T - 25, False), (T - 20, True)], "was in use", id="in use for a while in the window"
        ),
    ],
)
def test_an_eviction_needs_a_window_of_idleness(spans: list[tuple[float, bool]], says: str) -> None:
    """Counted back from the eviction, with room for what nobody could have seen."""
    wrong = found(life("p", "u", 0.0, *spans))
    assert len(wrong) == bool(says)
    assert all(says in one for one in wrong)


def test_a_pod_younger_than_the_window_is_not_evicted() -> None:
    """Its predecessor of the same name may have been idle."""
    assert "after its creation" in found(life(created=T - 20))[0]


def test_what_is_done_twice_or_in_secret_is_found() -> None:
    """Two evictions, two records, none, a pod that is simply gone, and a stranger."""
    one = life()
    twice = wrongs([one], [Eviction("soak", "p", T), Eviction("soak", "p", T + 1)], ["u"], [])
    assert twice == ["soak/p (u) was evicted 2 times"]
    assert found(one, records=2) == ["soak/p (u) has 2 records"]
    assert found(one, records=0) == ["soak/p (u) was evicted without a record"]
    assert wrongs([one], [], [], []) == ["soak/p (u) is gone and nobody evicted it"]
    assert wrongs([one], [], [], ["u"]) == []
    assert "is no pod of the soak" in wrongs([], [Eviction("soak", "x", T)], [], [])[0]


def test_a_pod_that_the_soak_removed_is_missed_by_nobody() -> None:
    """It recreates pods itself."""
    one = life()
    one.removed = T
    assert wrongs([one], [], [], []) == []


def test_an_eviction_belongs_to_the_pod_of_that_name_at_that_time() -> None:
    """Names are used again; a UID settles it."""
    first, second = life(uid="1"), life(uid="2", created=500.0)
    assert life_of([first, second], Eviction("soak", "p", 499.0)) is first
    assert life_of([first, second], Eviction("soak", "p", 501.0)) is second
    assert life_of([first, second], Eviction("soak", "p", 900.0, "1")) is first
    assert SLACK_SECONDS < AFTER_SECONDS
