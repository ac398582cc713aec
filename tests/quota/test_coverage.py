"""When a namespace is counted: not before no webhook can think that it is free."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from policy.gpuquota import GPUQuota
from policy.ledger import Ledger
from policy.objects import Namespace, ObjectMeta
from policy.spec import Selector
from quota.coverage import Coverage

QUOTA = GPUQuota("q", "u", 1, Selector({"team": "a"}), hard={"devices": Fraction(1)})
SETTLE = 5.0


def namespace(name: str, **labels: str) -> Namespace:
    """A namespace."""
    return Namespace(ObjectMeta(name=name, labels=labels))


def test_a_new_selection_waits_until_all_know_it() -> None:
    """Reviews that are under way without the quota must have ended."""
    coverage, selected = Coverage(SETTLE), [namespace("a", team="a"), namespace("b")]
    assert coverage.namespaces(QUOTA, Ledger(), selected, {}, 100) == ()
    assert coverage.namespaces(QUOTA, Ledger(), selected, {}, 104.9) == ()
    assert coverage.namespaces(QUOTA, Ledger(), selected, {}, 105) == ("a",)


def test_what_was_counted_before_goes_on() -> None:
    """A new leader does not make a namespace wait again."""
    counted = Ledger(namespaces=("a",), observed_generation=1)
    assert Coverage(SETTLE).namespaces(QUOTA, counted, [namespace("a", team="a")], {}, 0) == ("a",)


def test_a_namespace_that_leaves_waits_again() -> None:
    """Labels that come back are a new selection."""
    coverage, counted = Coverage(SETTLE), Ledger(observed_generation=1)
    coverage.namespaces(QUOTA, counted, [namespace("a", team="a")], {}, 0)
    assert coverage.namespaces(QUOTA, counted, [namespace("a")], {}, 4) == ()
    assert coverage.namespaces(QUOTA, counted, [namespace("a", team="a")], {}, 6) == ()


def test_a_namespace_that_is_born_under_a_quota_need_not_wait() -> None:
    """There was no time when anybody could think that it was free."""
    coverage, counted = Coverage(SETTLE), Ledger(observed_generation=1)
    coverage.namespaces(QUOTA, counted, [], {}, 100)
    born = [namespace("a", team="a")]
    assert coverage.namespaces(QUOTA, counted, born, {"a": 105}, 105) == ("a",)


@pytest.mark.parametrize(
    ("generation", "births", "now"),
    [
        pytest.param(1, {"a": 104.9}, 104.9, id="the quota was hardly there"),
        pytest.param(1, {"a": 99}, 110, id="the namespace was there before it"),
        pytest.param(2, {"a": 110}, 110, id="the quota selects others since now"),
        pytest.param(1, {}, 110, id="its labels came later"),
    ],
)
def test_a_namespace_that_was_free_for_a_moment_waits(
    generation: int, births: dict[str, float], now: float
) -> None:
    """In that moment a pod may have been let in that nobody has counted."""
    coverage, counted = Coverage(SETTLE), Ledger(observed_generation=1)
    coverage.namespaces(QUOTA, counted, [], {}, 100)
    quota = replace(QUOTA, generation=generation)
    assert coverage.namespaces(quota, counted, [namespace("a", team="a")], births, now) == ()
