"""Sees what came after an action: ended pods, owners that return, owners that compute again; pure.

An action is *regretted* if the owner used devices again within an hour of it; that a stop is undone by then
is how its owner comes back, not a reason to look away. The owner's later pods are those of the same root
owner; for a pod without an owner, those of its namespace with its name or its requester. They use devices if
an activity signal reached the threshold of their terms after their containers began.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from policy.durations import format_time
from reaper.endings import Endings, as_status
from reaper.holdings import devices
from reaper.observation import Observation
from reaper.reclaim import requester_of
from reaper.records import Phase, Record
from reaper.sources import Role, Source
from reaper.subjects import Subject

REGRET = timedelta(hours=1)
CREDIT = timedelta(hours=24)
"""For so long devices count as reclaimed; what would have become of the pod later, nobody knows."""

UNDONE = frozenset({Phase.REVERTED, Phase.RESUMED})
"""Stops that did their work for a while."""

DONE = frozenset({Phase.ACCEPTED}) | UNDONE
"""What took devices."""

SLACK = timedelta(minutes=2)
"""The time of an activity is known to a minute or so: samples of a namesake must not count."""


class Sequel(Struct, frozen=True):
    """Something that was seen after an action, as its record gets it."""

    record: Record
    status: Mapping[str, Any]
    regretted: bool = False


def sequels(
    records: Collection[Record],
    subjects: Collection[Subject],
    observation: Observation | None,
    endings: Endings,
    now: datetime,
    sources: tuple[Source, ...],
) -> tuple[Sequel, ...]:
    """Gives what is new about actions that were done, undone meanwhile or not, one for each record.

    `sources` are the exporters that are known, those of the settings included.
    """
    present = {one.pod.uid for one in subjects}
    found = []
    for record in records:
        if record.phase not in DONE:
            continue
        status: dict[str, Any] = {}
        if record.ended_at is None and record.pod_uid not in present:
            status["endedAt"] = format_time(now)
            containers = as_status(endings.of(record.pod_uid))
            if containers:
                status["containers"] = containers
        heirs = list(_heirs(record, subjects, now))
        if heirs and record.returned_at is None:
            status["returnedAt"] = format_time(min(heir.pod.created for heir in heirs))
        active = _active_again(record, heirs, observation, sources)
        if active is not None:
            status["activeAgainAt"] = format_time(active)
        if status:
            found.append(Sequel(record, status, regretted=active is not None))
    return tuple(found)


def reclaimed_until(record: Record, now: datetime) -> datetime:
    """Gives until when the devices of an action count as reclaimed."""
    limit = record.acted_at + CREDIT
    undone = record.completed_at if record.phase in UNDONE else None
    return max(record.acted_at, min(limit, record.returned_at or limit, undone or limit, now))


def reclaimed_seconds(records: Collection[Record], since: datetime, now: datetime) -> float:
    """Gives the device-seconds that were reclaimed between two times."""
    return sum(
        record.devices
        * max(
            0.0,
            (reclaimed_until(record, now) - max(record.acted_at, since)).total_seconds(),
        )
        for record in records
        if record.phase in DONE
    )


def _heirs(record: Record, subjects: Collection[Subject], now: datetime) -> Iterator[Subject]:
    """The owner's later pods, as long as it matters whether there are any."""
    if now - record.acted_at > CREDIT:
        return
    for one in subjects:
        # The API server writes creations in whole seconds: a successor may be made in that of the decision.
        if one.pod.created < record.decided_at or one.pod.uid == record.pod_uid:
            continue
        if one.pod.namespace != record.namespace or not one.holds_devices or one.pod.node is None:
            continue
        alone = record.owner_uid == record.pod_uid and one.root.uid == one.pod.uid
        same = one.pod.name == record.pod_name or (
            record.requester != "" and requester_of(one.pod) == record.requester
        )
        if one.root.uid == record.owner_uid or (alone and same):
            yield one


def _active_again(
    record: Record,
    heirs: Collection[Subject],
    observation: Observation | None,
    sources: tuple[Source, ...],
) -> datetime | None:
    """When an heir was last seen to use a device within the hour; None if it was not, or if that is known."""
    if record.active_again_at is not None or observation is None:
        return None
    times = [time for heir in heirs for time in _activity(heir, observation, sources)]
    return min((time for time in times if time - record.acted_at <= REGRET), default=None)


def _activity(heir: Subject, observation: Observation, sources: tuple[Source, ...]) -> Iterator[datetime]:
    started, terms = heir.pod.containers_started, heir.terms
    signals = observation.covering(terms.after.seconds) if terms is not None else None
    if started is None or terms is None or signals is None:
        return
    for device in devices(heir.pod, signals, sources):
        for reading in device.of(Role.ACTIVITY):
            above = reading.above.get(terms.utilization)
            if above is not None and above > started + SLACK:
                yield above
