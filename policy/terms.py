"""The idle terms of one pod, and their spelling as labels; knows neither policies nor what is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from msgspec import Struct

from policy.durations import Duration, parse_duration
from policy.errors import FieldError, FormatError
from policy.keys import Label
from policy.memory import MemoryLimit, parse_memory

EXEMPT: Final = "exempt"
_PERCENT: Final = re.compile(r"[1-9]\d{0,2}", re.ASCII)
_Value = TypeVar("_Value")
# Plain texts, so that what is written out holds no enum members.
_ACTION: Final = Label.IDLE_ACTION.value
_AFTER: Final = Label.IDLE_AFTER.value
_UTILIZATION: Final = Label.IDLE_UTILIZATION.value
_STATISTIC: Final = Label.IDLE_STATISTIC.value
_MEMORY: Final = Label.IDLE_MEMORY.value
_GRACE: Final = Label.IDLE_GRACE.value
_WARM_UP: Final = Label.IDLE_WARM_UP.value


class Action(StrEnum):
    """What an idle pod comes to, from mild to strict."""

    OBSERVE = "observe"
    WARN = "warn"
    EVICT = "evict"
    STOP = "stop"

    @property
    def rank(self) -> int:
        """0 for the mildest."""
        return _RANKS[self]


_RANKS: Final = {action: rank for rank, action in enumerate(Action)}


def weakest(*actions: Action) -> Action:
    """The mildest of at least one action."""
    return min(actions, key=lambda action: action.rank)


class Statistic(StrEnum):
    """Which value of a window's samples must be below the threshold."""

    MAXIMUM = "maximum"
    AVERAGE = "average"


class Reference(StrEnum):
    """What utilization is a percentage of: the whole card, or the cores of it that the pod was given."""

    CARD = "card"
    GIVEN = "given"


class Terms(Struct, frozen=True):
    """What idle means for a pod and what comes of it.

    `utilization` is a percentage, idle is below it. `exempt` terms carry the action `observe`: there is
    nothing to do, whoever forgets to look at the flag. `of` and `never_touched` have no label: they are
    always the policy's own, as it is today.
    """

    action: Action
    after: Duration
    utilization: int
    statistic: Statistic
    memory: MemoryLimit | None
    grace: Duration
    warm_up: Duration
    exempt: bool = False
    of: Reference = Reference.CARD
    never_touched: bool = False

    def describe(self) -> str:
        """The terms as a phrase: `idle for 2h (maximum below 5 %)`."""
        memory = f" and memory below {self.memory}" if self.memory else ""
        given = " of what was given" if self.of is Reference.GIVEN else ""
        return f"idle for {self.after} ({self.statistic} below {self.utilization} %{given}{memory})"


def terms_to_labels(terms: Terms) -> dict[str, str]:
    """The labels that spell the terms; `idle-memory` only where memory is looked at."""
    labels = {
        _ACTION: EXEMPT if terms.exempt else str(terms.action),
        _AFTER: terms.after.text,
        _UTILIZATION: str(terms.utilization),
        _STATISTIC: str(terms.statistic),
        _GRACE: terms.grace.text,
        _WARM_UP: terms.warm_up.text,
    }
    if terms.memory is not None:
        labels[_MEMORY] = terms.memory.text
    return labels


def terms_from_labels(labels: Mapping[str, str] | None) -> tuple[Terms | None, tuple[FieldError, ...]]:
    """Reads the terms that labels spell.

    Returns the terms, or None where a label is missing (only `idle-memory` may be) or malformed; and what is
    malformed, by label.
    """
    found, errors = read_labels(labels)
    if errors or found.missing:
        return None, errors
    return found.complete(), errors


class LabelledTerms(Struct, frozen=True):
    """The terms that labels spell, each None where its label is absent or malformed."""

    action: Action | None = None
    after: Duration | None = None
    utilization: int | None = None
    statistic: Statistic | None = None
    memory: MemoryLimit | None = None
    grace: Duration | None = None
    warm_up: Duration | None = None
    exempt: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the required fields that nothing can be read for."""
        required = ("action", "after", "utilization", "statistic", "grace", "warm_up")
        return tuple(name for name in required if getattr(self, name) is None)

    def complete(self) -> Terms:
        """The terms; nothing may be missing.

        Raises:
            ValueError: something is missing.
        """
        if (
            self.action is None
            or self.after is None
            or self.utilization is None
            or self.statistic is None
            or self.grace is None
            or self.warm_up is None
        ):
            raise ValueError(f"missing: {', '.join(self.missing)}")
        return Terms(
            action=self.action,
            after=self.after,
            utilization=self.utilization,
            statistic=self.statistic,
            memory=self.memory,
            grace=self.grace,
            warm_up=self.warm_up,
            exempt=self.exempt,
        )


def read_labels(labels: Mapping[str, str] | None) -> tuple[LabelledTerms, tuple[FieldError, ...]]:
    """Reads each term label by itself: what can be read, and what is malformed."""
    values = labels or {}
    errors: list[FieldError] = []

    def read(label: str, parse: Callable[[str], _Value]) -> _Value | None:
        text = values.get(label)
        if text is None:
            return None
        try:
            return parse(text)
        except FormatError as error:
            errors.append(FieldError(label, str(error)))
            return None

    exempt = values.get(_ACTION) == EXEMPT
    found = LabelledTerms(
        action=Action.OBSERVE if exempt else read(_ACTION, parse_action),
        after=read(_AFTER, parse_span),
        utilization=read(_UTILIZATION, parse_utilization),
        statistic=read(_STATISTIC, parse_statistic),
        memory=read(_MEMORY, parse_memory),
        grace=read(_GRACE, parse_duration),
        warm_up=read(_WARM_UP, parse_duration),
        exempt=exempt,
    )
    return found, tuple(errors)


def parse_action(text: str) -> Action:
    """Reads an action (`exempt` is none).

    Raises:
        FormatError: the text is no action.
    """
    try:
        return Action(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(Action)}") from error


def parse_statistic(text: str) -> Statistic:
    """Reads a statistic.

    Raises:
        FormatError: the text is none.
    """
    try:
        return Statistic(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(Statistic)}") from error


def parse_reference(text: str) -> Reference:
    """Reads what utilization is of.

    Raises:
        FormatError: the text is none.
    """
    try:
        return Reference(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(Reference)}") from error


def parse_utilization(text: str) -> int:
    """Reads a percentage.

    Raises:
        FormatError: the text is no whole number from 1 to 100.
    """
    if _PERCENT.fullmatch(text) is None or int(text) > 100:
        raise FormatError("must be a whole percentage from 1 to 100")
    return int(text)


def parse_span(text: str) -> Duration:
    """Reads a duration that is longer than nothing.

    Raises:
        FormatError: no duration, or none at all.
    """
    duration = parse_duration(text)
    if duration.seconds == 0:
        raise FormatError("must be longer than 0s")
    return duration
