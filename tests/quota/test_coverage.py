"""When a namespace is counted: not before no webhook can think that it is free."""

from __future__ import annotations

from fractions import Fraction

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
    assert coverage.namespaces(QUOTA, Ledger(), selected, (), 100) == ()
    assert coverage.namespaces(QUOTA, Ledger(), selected, (), 104.9) == ()
    assert coverage.namespaces(QUOTA, Ledger(), selected, (), 105) == ("a",)


def test_what_was_counted_before_goes_on() -> None:
    """A new leader does not make a namespace wait again."""
    counted = Ledger(namespaces=("a",), observed_generation=1)
    assert Coverage(SETTLE).namespaces(QUOTA, counted, [namespace("a", team="a")], (), 0) == ("a",)


def test_a_namespace_that_leaves_waits_again() -> None:
    """Labels that come back are a new selection."""
    coverage, counted = Coverage(SETTLE), Ledger(observed_generation=1)
    coverage.namespaces(QUOTA, counted, [namespace("a", team="a")], (), 0)
    assert coverage.namespaces(QUOTA, counted, [namespace("a")], (), 4) == ()
    assert coverage.namespaces(QUOTA, counted, [namespace("a", team="a")], (), 6) == ()


def test_a_fresh_namespace_of_an_old_quota_need_not_wait() -> None:
    """Nothing can be under way in a namespace that did not exist."""
    counted = Ledger(observed_generation=1)
    selected = [namespace("a", team="a")]
    assert Coverage(SETTLE).namespaces(QUOTA, counted, selected, {"a"}, 0) == ("a",)
    assert Coverage(SETTLE).namespaces(QUOTA, Ledger(), selected, {"a"}, 0) == ()
