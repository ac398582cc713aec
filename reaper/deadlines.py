"""Decides what is to be said of a deadline now; must not know who is told, how, or the reading of any object.

Users are told when 24 hours, one hour and a tenth are left, once each: what was told cannot be remembered for
ever, so a moment that passed long ago is taken for told, and the tightest of several counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from policy.deadline import DeadlineNote
from policy.durations import MAX_SECONDS, duration_of
from reaper.owners import Root
from reaper.pods import GpuPod

SHORTEST_LEAD: Final = 60
"""Seconds; nobody can do anything with less."""

FRESH: Final = timedelta(minutes=50)
"""A moment that is older was told by whoever led then: the API server forgets Events after an hour."""


class Left(StrEnum):
    """The moments at which users are told, by what is left."""

    DAY = "24h"
    HOUR = "1h"
    TENTH = "10pct"
    NOTHING = "0"


class Origin(StrEnum):
    """Where a deadline comes from."""

    INJECTED = DeadlineNote.INJECTED.value
    LOWERED = DeadlineNote.LOWERED.value
    KEPT = DeadlineNote.KEPT.value
    OWN = "own"


class Deadline(Struct, frozen=True, kw_only=True):
    """The deadline of one pod or Job.

    Attributes:
        holder: What has it.
        root: The root owner; the holder itself where nothing owns it.
        pods: Living pods that end with it.
        requester: Who asked for it; empty if nobody knows.
        policy: Name of the policy that holds in its namespace.
        longest_seconds: The most that this policy allows; None without such a limit.
        contact: Whom to ask.
        origin: Where it comes from.
        seconds: Its length.
        started: From when it counts.
        exceeded_at: When it ended its holder; None if it did not.
    """

    holder: Root
    root: Root
    pods: tuple[GpuPod, ...] = ()
    requester: str = ""
    policy: str
    longest_seconds: int | None = None
    contact: str = ""
    origin: Origin
    seconds: int
    started: datetime
    exceeded_at: datetime | None = None

    @property
    def ends_at(self) -> datetime:
        """When it ends its holder."""
        return self.started + timedelta(seconds=self.seconds)


class Notice(Struct, frozen=True):
    """What is to be said of a deadline now.

    Attributes:
        left: What is left.
        since: Since when that is so.
        until: Until when it is to be said.
        fresh: False if it was told before, as far as one can know.
    """

    left: Left
    since: datetime
    until: datetime
    fresh: bool


def origin_of(annotation: str | None) -> Origin:
    """Reads the annotation `deadline`; what nobody marked is a user's own."""
    known: Mapping[str, Origin] = {one.value: one for one in Origin}
    return known.get(annotation or "", Origin.OWN)


def leads(seconds: int) -> tuple[tuple[Left, int], ...]:
    """Gives the moments of a deadline of this length as seconds before its end, the earliest first.

    One that would come at the very start, or shortly before the end, is left out.
    """
    found = {seconds // 10: Left.TENTH, 3600: Left.HOUR, 86_400: Left.DAY}
    usable = ((lead, left) for lead, left in found.items() if SHORTEST_LEAD <= lead < seconds)
    return tuple((left, lead) for lead, left in sorted(usable, reverse=True))


def notice_of(deadline: Deadline, now: datetime, told_seconds: float) -> Notice | None:
    """Gives what is to be said now, or None; that it has passed is said for `told_seconds`."""
    if deadline.exceeded_at is not None:
        return _exceeded(deadline.exceeded_at, now, told_seconds)
    if deadline.seconds > MAX_SECONDS or now >= deadline.ends_at:
        return None
    moments = [(left, deadline.ends_at - timedelta(seconds=lead)) for left, lead in leads(deadline.seconds)]
    reached = [at for at, (_, since) in enumerate(moments) if since <= now]
    if not reached:
        return None
    left, since = moments[reached[-1]]
    until = moments[reached[-1] + 1][1] if reached[-1] + 1 < len(moments) else deadline.ends_at
    return Notice(left, since, until, now - since < FRESH)


def _exceeded(at: datetime, now: datetime, told_seconds: float) -> Notice | None:
    until = at + timedelta(seconds=told_seconds)
    fresh = now - at < FRESH
    return Notice(Left.NOTHING, at, until, fresh) if fresh or now < until else None


def sentence(deadline: Deadline, notice: Notice) -> str:
    """Says when it ends, why, and how to get more time."""
    origin = _ORIGINS[deadline.origin].format(policy=deadline.policy)
    why = f"by its deadline of {_length(deadline.seconds)}, {origin}"
    if notice.left is Left.NOTHING:
        parts = [f"Ended {why}.", _next_time(deadline)]
    else:
        when = f"{deadline.ends_at:%Y-%m-%d %H:%MZ}"
        parts = [f"Ends at {when}, in at most {_LEFT[notice.left]}, {why}.", _more_time(deadline)]
    return " ".join(part for part in (*parts, deadline.contact) if part)


_LEFT: Final = {Left.DAY: "24 hours", Left.HOUR: "one hour", Left.TENTH: "a tenth of its time"}
_ORIGINS: Final = {
    Origin.INJECTED: "which policy {policy} set because none was asked for",
    Origin.LOWERED: "lowered to the maximum of policy {policy}",
    Origin.KEPT: "as was asked for (policy {policy})",
    Origin.OWN: "its own activeDeadlineSeconds (policy {policy})",
}


def _more_time(deadline: Deadline) -> str:
    if deadline.holder.kind == "Job":
        return "For more time ask an administrator to raise activeDeadlineSeconds of the Job while it runs."
    return f"A pod's deadline cannot be raised: save what you need. {_next_time(deadline)}"


def _next_time(deadline: Deadline) -> str:
    if deadline.longest_seconds is None:
        return "To have more next time set activeDeadlineSeconds."
    longest = deadline.longest_seconds
    return f"To have more next time set activeDeadlineSeconds, up to {longest} ({_length(longest)})."


def _length(seconds: int) -> str:
    return duration_of(min(seconds, MAX_SECONDS)).text
