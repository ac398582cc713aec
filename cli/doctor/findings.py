"""What a check says: how bad, what, why it matters, and what to do; knows no check and prints nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

MOST_OBJECTS: Final = 20


class Level(StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"
    INFO = "info"
    OK = "ok"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Level).index(self)


class Finding(Struct, frozen=True):
    """One thing that was looked at.

    Attributes:
        check: Which check says so: a group and a name, such as `guards.bindings`.
        level: How bad it is; UNKNOWN is what could not be seen.
        what: What was found, in a sentence.
        why: Why that matters.
        todo: What to do.
        objects: What it is about, at most MOST_OBJECTS of them.
    """

    check: str
    level: Level
    what: str
    why: str = ""
    todo: str = ""
    objects: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The group of checks."""
        return self.check.partition(".")[0]


def fine(check: str, what: str) -> Finding:
    """Gives the finding that nothing is wrong."""
    return Finding(check, Level.OK, what)


def some(names: Iterable[str]) -> tuple[str, ...]:
    """Gives names for `objects`, sorted; how many were left out is the last one."""
    found = sorted(set(names))
    if len(found) <= MOST_OBJECTS:
        return tuple(found)
    return (*found[: MOST_OBJECTS - 1], f"and {len(found) - MOST_OBJECTS + 1} more")


def exit_code(findings: Collection[Finding], *, strict: bool) -> int:
    """Gives 1 for warnings and errors, and if `strict` for what could not be seen; otherwise 0."""
    least = Level.UNKNOWN if strict else Level.WARNING
    return int(any(one.level.rank <= least.rank for one in findings))
