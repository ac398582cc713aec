from __future__ import annotations

import pytest
from hypothesis import given

from policy.durations import parse_duration
from policy.errors import FormatError
from policy.keys import TERM_LABELS, Label
from policy.memory import MemoryLimit, parse_memory
from policy.syntax import is_label_value
from policy.terms import Action, Statistic, Terms, terms_from_labels, terms_to_labels, weakest
from tests.policy.strategies import terms

EVICT = Terms(
    action=Action.EVICT,
    after=parse_duration("2h"),
    utilization=5,
    statistic=Statistic.MAXIMUM,
    memory=parse_memory("500Mi"),
    grace=parse_duration("30m"),
    warm_up=parse_duration("30m"),
)
LABELS = {
    Label.IDLE_ACTION: "evict",
    Label.IDLE_AFTER: "2h",
    Label.IDLE_UTILIZATION: "5",
    Label.IDLE_STATISTIC: "maximum",
    Label.IDLE_MEMORY: "500Mi",
    Label.IDLE_GRACE: "30m",
    Label.IDLE_WARM_UP: "30m",
}


def test_terms_spell_the_labels_of_the_contract() -> None:
    """The labels of the contract's table read and write as the same terms."""
    assert terms_to_labels(EVICT) == LABELS
    assert terms_from_labels(LABELS) == (EVICT, ())
    assert EVICT.describe() == "idle for 2h (maximum below 5 % and memory below 500Mi)"


@given(terms())
def test_terms_round_trip(given_terms: Terms) -> None:
    """Any terms survive the labels, and every label is valid in Kubernetes."""
    labels = terms_to_labels(given_terms)
    assert terms_from_labels(labels) == (given_terms, ())
    assert set(labels) <= {label.value for label in TERM_LABELS}
    assert all(is_label_value(value) for value in labels.values())


def test_exempt_terms_do_nothing() -> None:
    """`exempt` is an action on the label only; whoever overlooks the flag finds `observe`."""
    found, errors = terms_from_labels({**LABELS, Label.IDLE_ACTION: "exempt"})
    assert errors == ()
    assert found is not None
    assert (found.exempt, found.action) == (True, Action.OBSERVE)


@pytest.mark.parametrize("label", [label for label in TERM_LABELS if label is not Label.IDLE_MEMORY])
def test_every_label_but_memory_is_required(label: Label) -> None:
    """Terms are whole or missing, never half."""
    found, errors = terms_from_labels({key: value for key, value in LABELS.items() if key != label})
    assert (found, errors) == (None, ())


def test_absent_memory_is_not_looked_at() -> None:
    """Without `idle-memory` the terms have no memory limit."""
    found, _ = terms_from_labels({key: value for key, value in LABELS.items() if key != Label.IDLE_MEMORY})
    assert found is not None
    assert found.memory is None
    assert found.describe() == "idle for 2h (maximum below 5 %)"


@pytest.mark.parametrize(
    ("label", "value"),
    [
        pytest.param(Label.IDLE_ACTION, "delete", id="an unknown action"),
        pytest.param(Label.IDLE_ACTION, "", id="an empty action"),
        pytest.param(Label.IDLE_AFTER, "0s", id="idle after nothing"),
        pytest.param(Label.IDLE_AFTER, "2", id="a duration without unit"),
        pytest.param(Label.IDLE_UTILIZATION, "0", id="a utilization of nothing"),
        pytest.param(Label.IDLE_UTILIZATION, "101", id="a utilization above 100"),
        pytest.param(Label.IDLE_UTILIZATION, "5.5", id="a broken percentage"),
        pytest.param(Label.IDLE_UTILIZATION, "05", id="a percentage with a leading zero"),
        pytest.param(Label.IDLE_STATISTIC, "mean", id="an unknown statistic"),
        pytest.param(Label.IDLE_MEMORY, "0", id="a memory of nothing"),
        pytest.param(Label.IDLE_MEMORY, "101pct", id="more than the whole memory"),
        pytest.param(Label.IDLE_GRACE, "soon", id="a grace that is no duration"),
        pytest.param(Label.IDLE_WARM_UP, "-1m", id="a negative warm-up"),
    ],
)
def test_malformed_labels_are_named(label: Label, value: str) -> None:
    """One malformed label voids the terms and is named; several are all named."""
    found, errors = terms_from_labels({**LABELS, label: value})
    assert found is None
    assert [error.path for error in errors] == [label]
    other = Label.IDLE_STATISTIC if label is Label.IDLE_AFTER else Label.IDLE_AFTER
    _, both = terms_from_labels({**LABELS, label: value, other: "?"})
    assert {error.path for error in both} == {label, other}


def test_no_labels_are_no_terms() -> None:
    """A pod without labels has no terms, and nothing malformed."""
    assert terms_from_labels(None) == (None, ())


def test_actions_are_ordered() -> None:
    """From mild to strict: observe, warn, evict, stop."""
    assert sorted(Action, key=lambda action: action.rank) == ["observe", "warn", "evict", "stop"]
    assert weakest(Action.STOP, Action.WARN, Action.EVICT) is Action.WARN


@pytest.mark.parametrize(
    ("value", "text", "size", "percent"),
    [
        pytest.param("500Mi", "500Mi", 500 * 2**20, None, id="a quantity keeps its text"),
        pytest.param("5%", "5pct", None, 5, id="a percent sign is spelled pct on the label"),
        pytest.param("5pct", "5pct", None, 5, id="the label's spelling reads too"),
        pytest.param("100%", "100pct", None, 100, id="the whole memory is a limit"),
        pytest.param(1_000, "1000", 1_000, None, id="a number is bytes"),
        pytest.param("+1", "1", 1, None, id="a sign is no label, so bytes are spelled"),
        pytest.param("1e+3", "1000", 1_000, None, id="an exponent with a sign too"),
        pytest.param("2.", "2", 2, None, id="a trailing dot too"),
        pytest.param("1500m", "1500m", 2, None, id="parts of a byte are rounded up"),
    ],
)
def test_memory_limits(value: str | int, text: str, size: int | None, percent: int | None) -> None:
    """A limit is absolute or relative, and its text is a valid label that reads the same."""
    limit = parse_memory(value)
    assert (limit.text, limit.bytes, limit.percent) == (text, size, percent)
    assert is_label_value(limit.text)
    assert parse_memory(limit.text) == limit


@pytest.mark.parametrize(
    "value", [None, "", "0", "-1", "0%", "101%", "5.5%", "5 %", "%", "much", True, "2Ei", "1e60"]
)
def test_memory_limits_refused(value: str | float | None) -> None:
    """No memory, more than a device could have, and anything else are refused."""
    with pytest.raises(FormatError):
        parse_memory(value)


def test_memory_limits_compare_by_size() -> None:
    """The spelling takes no part in comparison."""
    assert parse_memory("1Ki") == parse_memory("1024")
    assert hash(parse_memory("1Ki")) == hash(parse_memory("1024"))
    assert parse_memory("5%") != parse_memory("5")
    assert parse_memory("5%") != "5pct"
    assert str(MemoryLimit("5pct", percent=5)) == "5%"
