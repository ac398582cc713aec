"""Words the warnings that kubectl shows: few, short, printable; does not decide what deserves one."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CHARACTERS = 120
"""What the API server passes on without cutting."""

MAX_WARNINGS = 2
"""Per pod; more would hide each other."""


def fit_warning(text: str) -> str:
    """Makes one printable line of at most MAX_CHARACTERS; an ellipsis tells that something was cut."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[: MAX_CHARACTERS - 1].rstrip() + "…"


def fit_warnings(texts: Iterable[str]) -> tuple[str, ...]:
    """Keeps the first MAX_WARNINGS different ones, the last of them saying how many were left out."""
    fitted = tuple(dict.fromkeys(fit_warning(text) for text in texts))
    if len(fitted) <= MAX_WARNINGS:
        return fitted
    hidden = len(fitted) - MAX_WARNINGS
    suffix = f" (and {hidden} more)"
    last = fitted[MAX_WARNINGS - 1]
    if len(last) + len(suffix) > MAX_CHARACTERS:
        last = last[: MAX_CHARACTERS - len(suffix) - 1].rstrip("… ") + "…"
    return (*fitted[: MAX_WARNINGS - 1], last + suffix)
