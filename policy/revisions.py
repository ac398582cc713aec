"""How resource versions compare."""

from __future__ import annotations


def revision(version: str) -> int:
    """A resource version as a number; API servers of today promise that they are, and that they only grow."""
    return int(version) if version.isascii() and version.isdigit() else 0
