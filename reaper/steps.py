"""The parts of a plan, as values: what is written on pods, what is left alone and why; decides nothing."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from policy.terms import Action
from policy.verdicts import Reason
from reaper.marks import Mark
from reaper.subjects import Subject


class Change(StrEnum):
    """What happens to the mark of a pod."""

    SIGHT = "sight"
    WARN = "warn"
    MOVE = "move"
    LOWER = "lower"
    REMOVE = "remove"


class Step(Struct, frozen=True):
    """One change of a mark; `reason` says why, or what it leads to, and `action` what is announced."""

    change: Change
    subject: Subject
    mark: Mark | None
    reason: Reason | None = None
    action: Action = Action.EVICT


class Keep(Struct, frozen=True):
    """A user's `keep-until`: the time to be written instead, and what its user should know about it."""

    subject: Subject
    text: str | None
    problem: str | None = None


class Skip(Struct, frozen=True):
    """A pod left alone, with the reason and a sentence where the reason does not say all."""

    subject: Subject
    reason: Reason
    sentence: str = ""


class Hold(Struct, frozen=True):
    """A reason why the whole cycle does less; `freezes` if it changes no mark either."""

    reason: Reason
    sentence: str
    freezes: bool
