from dataclasses import replace

import pytest

from sandbox.demo.expected import compare, load_expected
from sandbox.demo.rows import Row

BUSY = Row("team", "trainer", 1, "batch", "injected", "Active", "AboveThreshold", naive=True)
WANTED = {
    "namespace": "team",
    "pod": "trainer",
    "class": "batch",
    "deadline": "injected",
    "verdict": "Active",
    "reason": "AboveThreshold",
    "outcome": "untouched",
    "naive": True,
}


def test_a_row_as_expected_matches() -> None:
    """Equal rows leave no difference."""
    comparison = compare([BUSY], [WANTED])
    assert (comparison.matched, comparison.differences) == (1, [])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param(
            {"outcome": "evicted"}, "outcome is 'evicted', expected 'untouched'", id="another outcome is told"
        ),
        pytest.param(
            {"skip": "Paused"}, "skip is 'Paused', expected ''", id="a skip that nobody expected is told"
        ),
        pytest.param(
            {"parked": True}, "parked is True, expected False", id="a parked pod that nobody expected is told"
        ),
        pytest.param(
            {"naive": False}, "naive is False, expected True", id="another answer of the naive rule is told"
        ),
    ],
)
def test_a_row_that_differs_is_told(changed: dict[str, object], said: str) -> None:
    """Every difference names the pod, the column and both values."""
    comparison = compare([replace(BUSY, **changed)], [WANTED])
    assert comparison.matched == 0
    assert comparison.differences == [f"team/trainer: {said}"]


def test_a_pod_that_is_missing_is_told() -> None:
    """An expectation without a row is a difference."""
    assert compare([], [WANTED]).differences == ["team/trainer: 1 missing"]


def test_a_pod_that_nobody_expected_is_told() -> None:
    """A row without an expectation is a difference."""
    assert compare([BUSY, replace(BUSY, pod="other")], [WANTED]).differences == [
        "team/other: not in the table of expected outcomes"
    ]


def test_two_pods_of_one_controller_match_in_any_order() -> None:
    """Two expectations with the same pattern find the row that fits each."""
    first, second = replace(BUSY, pod="web-1", outcome="evicted"), replace(BUSY, pod="web-2")
    wanted = [{**WANTED, "pod": "web-*"}, {**WANTED, "pod": "web-*", "outcome": "evicted"}]
    assert compare([first, second], wanted).differences == []


def test_the_table_of_the_demo_names_every_column() -> None:
    """No row of the shipped table leaves a column to chance."""
    columns = set(WANTED)
    assert all(columns <= set(row) for row in load_expected())
