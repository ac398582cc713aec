"""Numbers with their nouns, in sentences for people."""

from __future__ import annotations


def counted(number: int, noun: str, several: str = "") -> str:
    """Gives `1 pod` or `2 pods`; `several` is the plural where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"
