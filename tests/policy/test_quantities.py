from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import FormatError
from policy.quantities import MAX_EXPONENT, parse_quantity, whole_devices

ROWS = json.loads((Path(__file__).parent / "data" / "quantities.json").read_text(encoding="utf-8"))
"""Spellings with the answers of resource.ParseQuantity (k8s.io/apimachinery 0.36.3): the exact value (null is
an error) and the whole number that the API server counts (null is refused)."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['text']!r} reads as {row['value']}")
def test_quantities_read_as_the_api_server_reads_them(row: dict[str, str | None]) -> None:
    """Every spelling has the API server's value, or is refused where it refuses."""
    text, value, whole = row["text"], row["value"], row["whole"]
    if value is None:
        with pytest.raises(FormatError):
            parse_quantity(text)
    else:
        assert parse_quantity(text) == Fraction(value)
    if whole is None:
        with pytest.raises(FormatError):
            whole_devices(text)
    else:
        assert whole_devices(text) == int(whole)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, Fraction(0), id="null is zero"),
        pytest.param(2, Fraction(2), id="a JSON integer is its value"),
        pytest.param(-2, Fraction(-2), id="a negative integer too"),
        pytest.param(0.5, Fraction(1, 2), id="a JSON fraction is read from its text"),
        pytest.param(0.1, Fraction(1, 10), id="a decimal fraction is exact"),
        pytest.param(1e22, Fraction(10**22), id="a large float is written with an exponent"),
        pytest.param(" 3 ", Fraction(3), id="spaces around are trimmed"),
    ],
)
def test_json_values(value: str | float | None, expected: Fraction) -> None:
    """Numbers of JSON and YAML mean what their text means."""
    assert parse_quantity(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(True, id="true is no quantity"),
        pytest.param(float("nan"), id="nan is no quantity"),
        pytest.param(float("inf"), id="infinity is no quantity"),
        pytest.param(10**5000, id="an integer of 5000 digits is refused unread"),
        pytest.param("1" * 5000, id="a text of 5000 digits is refused unread"),
        pytest.param(f"1e{MAX_EXPONENT + 1}", id="an exponent beyond the bound is refused"),
        pytest.param(f"1e-{MAX_EXPONENT + 1}", id="a negative exponent beyond the bound is refused"),
        pytest.param("1e9999999999", id="a ten-digit exponent is refused, not computed"),
        pytest.param([], id="a list is no quantity"),
    ],
)
def test_refused_values(value: str | float) -> None:
    """What the API server refuses, and what would take too long, is a FormatError."""
    with pytest.raises(FormatError):
        parse_quantity(value)


@given(st.integers(0, 10**12), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "e2", "e-3"]))
def test_quantities_are_mantissa_times_suffix(mantissa: int, suffix: str) -> None:
    """A suffix scales the number, and the sign turns it."""
    scale = {
        "": Fraction(1),
        "m": Fraction(1, 1000),
        "k": Fraction(1000),
        "M": Fraction(10**6),
        "Ki": Fraction(1024),
        "Mi": Fraction(2**20),
        "e2": Fraction(100),
        "e-3": Fraction(1, 1000),
    }[suffix]
    assert parse_quantity(f"{mantissa}{suffix}") == mantissa * scale
    assert parse_quantity(f"-{mantissa}{suffix}") == -mantissa * scale


@given(st.integers(0, 10**15))
def test_whole_numbers_round_trip(count: int) -> None:
    """Each spelling of a whole number is that number."""
    for text in (str(count), f"{count}000m", f"+{count}", f"0{count}.", f"{count}e0", f"{count}.0"):
        assert whole_devices(text) == count
    assert whole_devices(count) == count


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=10**6))
def test_whole_devices_never_rounds_by_more_than_a_thousandth(value: Fraction) -> None:
    """A count is the value itself, up to the thousandths that the API server rounds up."""
    text = f"{value.numerator * 10**12 // value.denominator}e-12"
    try:
        count = whole_devices(text)
    except FormatError:
        return
    assert 0 <= count - parse_quantity(text) < Fraction(1, 1000)


@given(st.text(alphabet="0123456789.+-eEkKiMGTPnum ", max_size=12))
def test_reading_never_raises_anything_else(text: str) -> None:
    """Whatever is written is a value in whole billionths, or a FormatError."""
    try:
        value = parse_quantity(text)
    except FormatError:
        return
    assert (value * 10**9).denominator == 1
