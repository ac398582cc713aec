"""Kubernetes quantities, read as the API server reads them; knows no resource names."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from policy.errors import FormatError

MAX_EXPONENT: Final = 64
"""Exponents beyond this, in either direction, are refused: computing with them can take for ever."""
MAX_LENGTH: Final = 256
"""Longer texts are refused unread."""

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?"
    r"(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?\d+)",
    re.ASCII,
)
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = 10**9
_MAX_BINARY: Final = 2**63 - 1
_PLAIN_DIGITS: Final = 18
_MALFORMED: Final = "must be a quantity such as 2, 500m or 3Gi"


def parse_quantity(value: str | float | None) -> Fraction:
    """The exact value of a quantity as JSON or YAML carry it; `None` is 0.

    What is finer than a billionth is rounded up (away from zero) to one, as the API server does; values with
    a binary suffix are capped at 2^63 - 1.

    Raises:
        FormatError: the API server would not read it, or its exponent or length is beyond our bounds.
    """
    if value is None:
        return Fraction(0)
    text = _text_of(value)
    match = _QUANTITY.fullmatch(text)
    if match is None or not text:
        raise FormatError(_MALFORMED)
    part = match["part"] or ""
    digits, suffix = f"{match['whole']}{part}", match["suffix"]
    if not digits and not _is_zero_without_digits(suffix):
        raise FormatError(_MALFORMED)
    amount = _scaled(Fraction(int(digits or "0"), 10 ** len(part)), suffix)
    return -amount if match["sign"] == "-" else amount


def whole_devices(value: str | float | None) -> int:
    """The value of a quantity that counts things: rounded up to thousandths, then it must be whole.

    Raises:
        FormatError: unreadable, negative, or not whole; nothing is ever rounded to a whole number.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _PLAIN_DIGITS:
        return int(value)
    amount = parse_quantity(value)
    if amount < 0:
        raise FormatError("must not be negative")
    thousandths = -(-amount.numerator * 1000 // amount.denominator)
    count, rest = divmod(thousandths, 1000)
    if rest:
        raise FormatError("must be a whole number")
    return count


def _text_of(value: object) -> str:
    """The text that the API server would see for a JSON value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise FormatError(_MALFORMED)
    if isinstance(value, int) and value.bit_length() > MAX_LENGTH:
        raise FormatError("must be written with fewer digits")
    text = value.strip(" ") if isinstance(value, str) else repr(value)
    if len(text) > MAX_LENGTH:
        raise FormatError("must be written with fewer digits")
    return text


def _is_zero_without_digits(suffix: str) -> bool:
    """Whether the API server reads a quantity without any digit (`.`, `Ki`) as 0; not with every suffix."""
    return suffix not in {"Pi", "Ei"} and _exponent(suffix) >= _DECIMAL["n"]


def _exponent(suffix: str) -> int:
    """The decimal exponent of a suffix, 0 for a binary one."""
    if suffix in _BINARY:
        return 0
    return _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])


def _scaled(amount: Fraction, suffix: str) -> Fraction:
    """The amount times its suffix, rounded up to billionths."""
    if suffix in _BINARY:
        return min(_rounded_up(amount * 2 ** _BINARY[suffix]), Fraction(_MAX_BINARY))
    exponent = _exponent(suffix)
    if abs(exponent) > MAX_EXPONENT:
        raise FormatError(f"must have an exponent between -{MAX_EXPONENT} and {MAX_EXPONENT}")
    return _rounded_up(amount * Fraction(10) ** exponent)


def _rounded_up(amount: Fraction) -> Fraction:
    """The smallest multiple of a billionth that is not below the amount."""
    return Fraction(-(-amount.numerator * _NANO // amount.denominator), _NANO)
