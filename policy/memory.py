"""The memory limit of idle terms, absolute or relative; knows no device's size."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from policy.errors import FormatError
from policy.quantities import parse_quantity
from policy.syntax import is_label_value

_PERCENT: Final = re.compile(r"([1-9]\d{0,2})(%|pct)", re.ASCII)
_MAX_BYTES: Final = 2**60
_MALFORMED: Final = "must be a quantity such as 500Mi, or a percentage from 1% to 100%"


class MemoryLimit(Struct, frozen=True, eq=False):
    """Idle only below this: `bytes`, or `percent` of the device's or vGPU's limit; exactly one is set.

    `text` is what the label carries (`500Mi`, `5pct`) and takes no part in comparisons.
    """

    text: str
    bytes: int | None = None
    percent: int | None = None

    def __str__(self) -> str:
        """As people read it: `500Mi` or `5%`."""
        return self.text if self.percent is None else f"{self.percent}%"

    def __eq__(self, other: object) -> bool:
        """Equal to a limit of the same size, however it is spelled."""
        if not isinstance(other, MemoryLimit):
            return NotImplemented
        return (self.bytes, self.percent) == (other.bytes, other.percent)

    def __ne__(self, other: object) -> bool:
        """Written out, because Struct brings its own `!=`, which does not follow `==`."""
        return not self == other

    def __hash__(self) -> int:
        return hash((self.bytes, self.percent))


def parse_memory(value: str | float | None) -> MemoryLimit:
    """Reads a limit as the CRD or a label writes it: `500Mi`, `5%`, `5pct`.

    A quantity that is no valid label value is spelled in bytes; parts of a byte are rounded up.

    Raises:
        FormatError: neither, or nothing (0 and below), or more than 1 EiB.
    """
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        percent = int(match[1])
        if percent > 100:
            raise FormatError(_MALFORMED)
        return MemoryLimit(f"{percent}pct", percent=percent)
    if value is None:
        raise FormatError(_MALFORMED)
    try:
        amount = parse_quantity(value)
    except FormatError as error:
        raise FormatError(_MALFORMED) from error
    size = -(-amount.numerator // amount.denominator)
    if not 0 < size <= _MAX_BYTES:
        raise FormatError("must be more than 0 and at most 1Ei")
    text = str(value)
    return MemoryLimit(text if is_label_value(text) else str(size), bytes=size)
