"""Chooses among due candidates within the limits; must not know why one is due or how it is acted on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from policy.verdicts import Reason
from reaper.groups import Group
from reaper.limits import Limits
from reaper.pressure import Wanted, held, helps, less
from reaper.records import Record, by_owner, devices_taken, other_actions


class Choice(Struct, frozen=True):
    """What may be done in this cycle.

    Attributes:
        taken: The groups to act on, most waste first.
        left: The others, each with what held it back.
    """

    taken: tuple[Group, ...]
    left: tuple[tuple[Group, Reason, str], ...]


def waste(group: Group, now: datetime) -> float:
    """Gives the device-seconds a group has been idle for.

    Since its last pod became idle, times its devices.
    """
    starts = [
        member.verdict.idle_since for member in group.members if member.verdict and member.verdict.idle_since
    ]
    return group.devices * max((now - max(starts)).total_seconds(), 0.0) if starts else 0.0


def ordered(groups: Iterable[Group], now: datetime) -> tuple[Group, ...]:
    """Puts the most waste first; equals in the order of their names."""
    return tuple(sorted(groups, key=lambda group: (-waste(group, now), group.key)))


def hourly_devices(
    groups: Collection[Group],
    records: Collection[Record],
    judged_devices: int,
    limits: Limits,
    now: datetime,
) -> int:
    """Gives the devices that may be taken within the span.

    A share, or the largest candidate if that is more, together with what has gone of it already: the rest of
    an action that was broken off is not held back by its own beginning.
    """
    share = judged_devices * limits.device_percent // 100
    since = now - timedelta(seconds=limits.device_seconds)
    of_owners = by_owner(records)
    return max(
        [share, *(group.devices + _gone(group, of_group(group, of_owners), since) for group in groups)]
    )


def choose(
    candidates: Collection[Group],
    records: Collection[Record],
    judged_devices: int,
    limits: Limits,
    now: datetime,
    wanted: Wanted | None = None,
) -> Choice:
    """Chooses greedily, most waste first.

    A group that the device limit holds back also holds back those behind it: otherwise small groups would use
    up what a large one waits for, hour after hour. With `wanted` only devices that somebody waits for are
    taken, and no more of them than are waited for.
    """
    budget = hourly_devices(candidates, records, judged_devices, limits, now)
    since = now - timedelta(seconds=limits.device_seconds)
    own = {uid for group in candidates for uid in group.uids}
    spent = devices_taken([record for record in records if record.pod_uid not in own], since)
    taken: list[Group] = []
    left: list[tuple[Group, Reason, str]] = []
    per_namespace: Counter[str] = Counter()
    per_owner = _earlier(candidates, records, limits, now)
    full = False
    for group in ordered(candidates, now):
        namespace, owner = group.root.namespace, group.root.uid
        if per_owner[owner] >= limits.actions_per_owner:
            # Before the device limit: what its owner holds back must not keep others waiting.
            left.append((group, Reason.LIMIT_REACHED, f"{limits.actions_per_owner} actions on this owner"))
            continue
        if wanted is not None and not any(helps(held(member.pod), wanted) for member in group.members):
            left.append((group, Reason.NO_PRESSURE, ""))
            continue
        full = full or spent + group.devices > budget
        why = ""
        if full:
            why = f"{spent} of {budget} devices are taken within {limits.device_seconds} s"
        elif len(taken) >= limits.actions_per_cycle:
            why = f"{limits.actions_per_cycle} actions in this cycle"
        elif per_namespace[namespace] >= limits.actions_per_namespace:
            why = f"{limits.actions_per_namespace} actions in this namespace and cycle"
        if why:
            left.append((group, Reason.LIMIT_REACHED, why))
        else:
            taken.append(group)
            per_namespace[namespace] += 1
            per_owner[owner] += 1
            spent += group.devices
            for member in group.members if wanted is not None else ():
                wanted = less(wanted or {}, held(member.pod))
    return Choice(tuple(taken), tuple(left))


def of_group(group: Group, of_owners: Mapping[str, list[Record]]) -> list[Record]:
    """Gives the records of all owners of a group."""
    return [record for uid in sorted(group.owner_uids) for record in of_owners.get(uid, [])]


def _gone(group: Group, records: Collection[Record], since: datetime) -> int:
    """Sums the devices that were taken after `since` by the action that a group is the rest of."""
    begun = {record.decided_at for record in records if record.pod_uid in group.uids}
    others = [one for one in records if one.decided_at in begun and one.pod_uid not in group.uids]
    return devices_taken(others, since)


def _earlier(
    candidates: Iterable[Group], records: Collection[Record], limits: Limits, now: datetime
) -> Counter[str]:
    """Counts the actions on each candidate's owner that are not its own, by UID of the owner."""
    since = now - timedelta(seconds=limits.owner_seconds)
    of_owners = by_owner(records)
    return Counter(
        {group.root.uid: other_actions(of_group(group, of_owners), group.uids, since) for group in candidates}
    )
