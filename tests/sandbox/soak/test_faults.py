from __future__ import annotations

import random
from itertools import islice

import pytest

from sandbox.faults import Fault
from sandbox.soak.breaker import fault_of
from sandbox.soak.faults import ANSWERS, SECONDS, SPOILT, Kind, blows
from sandbox.soak.memory import GROWTH_LIMIT, Growth, slope
from sandbox.soak.witness import REAPER, audited

ACCEPTED = (
    '{"verb":"create","user":{"username":"USER"},"objectRef":{"resource":"pods","namespace":"soak","name":"p",'
    '"subresource":"eviction"},"responseStatus":{"code":CODE},"requestReceivedTimestamp":"2026-01-01T00:00:01.5Z"}'
)


def seeded() -> random.Random:
    """Always the same numbers."""
    return random.Random(1)  # noqa: S311 - faults need no secrets


def test_every_fault_comes_before_any_comes_again() -> None:
    """A short run sees as many kinds as it can; the seed says in which order."""
    found = list(islice(blows(seeded(), (1.0, 2.0)), 2 * len(Kind)))
    assert {one.kind for one in found[: len(Kind)]} == set(Kind)
    assert {one.kind for one in found[len(Kind) :]} == set(Kind)
    assert found == list(islice(blows(seeded(), (1.0, 2.0)), 2 * len(Kind)))
    assert all(1 <= one.pause <= 2 for one in found)
    assert all(SECONDS[one.kind][0] <= one.seconds <= SECONDS[one.kind][1] for one in found)


@pytest.mark.parametrize("answer", sorted({*ANSWERS, *SPOILT}))
def test_every_answer_has_a_fault_of_the_proxy(answer: str) -> None:
    """None of them lets things pass."""
    assert fault_of(answer, seeded()).kind != Fault().kind


def test_a_rewritten_exposition_has_other_values_and_the_same_series() -> None:
    """Garbage is in values; comments stay as they are."""
    fault = fault_of("rewrite", seeded())
    text = b'# TYPE a gauge\na{b="c 1"} 5\nd 1e-3\n'
    lines = fault.rewrite(text).splitlines()
    assert lines[0] == b"# TYPE a gauge"
    assert lines[1].startswith(b'a{b="c 1"} ')
    assert not lines[1].endswith(b" 5")


def test_memory_is_flat_until_it_grows_for_minutes() -> None:
    """The first filling does not count, and neither does a short life."""
    flat = [(float(at), 70_000_000 + (at % 7) * 10_000) for at in range(0, 600, 2)]
    leak = [(float(at), 70_000_000 + at * 40_000) for at in range(0, 600, 2)]
    filling = [(float(at), 70_000_000 + min(at, 170) * 1_000_000) for at in range(0, 600, 2)]
    assert Growth("a", flat).flat
    assert Growth("a", filling).flat
    assert not Growth("a", leak).flat
    assert Growth("a", leak).per_minute == pytest.approx(2.4 * GROWTH_LIMIT)
    assert Growth("a", leak[:170]).per_minute is None
    assert slope([]) == slope([(1.0, 5.0)]) == 0.0


@pytest.mark.parametrize(
    ("code", "user", "count"), [(201, REAPER, 1), (429, REAPER, 0), (409, REAPER, 0), (201, "admin", 0)]
)
def test_only_accepted_evictions_are_read_from_the_audit_log(code: int, user: str, count: int) -> None:
    """Lines that a kill cut in two tell nothing, and neither do the observer's."""
    line = ACCEPTED.replace("CODE", str(code)).replace("USER", user)
    found = list(audited([line[:50], line, '{"verb":"get"}']))
    assert len(found) == count
    assert [one.name for one in found] == ["p"] * count
