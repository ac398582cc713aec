"""Words what is wrong with the form of a field, for whoever wrote it; reads no file."""

from __future__ import annotations

import msgspec

from policy.errors import FieldError

_EXAMPLES = {
    "expected `str`": '; write it in quotes, such as "5"',
    "expected `int": "; write a whole number, such as 3600",
    "expected `array": "; write a list, with a dash before each item",
    "expected `object": "; write a mapping, such as {name: value}",
}


def field_error(where: str, path: str, error: msgspec.ValidationError) -> FieldError:
    """Words a field of the wrong form: where it is, what is expected, and an example."""
    message, _, place = str(error).partition(" - at `$")
    field = f"{path}{place.rstrip('`').lstrip('.')}".replace("[...]", ".*")
    expected = message[:1].lower() + message[1:]
    example = next((text for form, text in _EXAMPLES.items() if form in expected), "")
    return FieldError(f"{where}: {field}", f"{expected}{example}")
