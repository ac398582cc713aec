"""Says when a workload asks for more than quotas leave; a remark only, refusing is the quotas' own affair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from policy.devices import Devices
from policy.gpuquota import DEVICES
from policy.ledger import show_amount
from policy.resourcequota import Room


def room_remarks(asked: Iterable[tuple[Devices, int]], rooms: Sequence[Room]) -> tuple[str, ...]:
    """One sentence for each quota that cannot hold all pods; `asked` are devices of a pod, and how many pods.

    Only whole devices are compared, and the cards they weigh together: of companions a quota counts something
    else than a pod holds.
    """
    if not rooms:
        return ()
    totals: dict[str, Fraction] = {}
    pods = 0
    for devices, count in asked:
        pods += count
        totals[DEVICES] = totals.get(DEVICES, Fraction(0)) + devices.weight * count
        for name, number in devices.counts.items():
            rule = devices.table.rule_of(name)
            if rule is not None and rule.unit.counts and rule.whole == 1:
                totals[name] = totals.get(name, Fraction(0)) + number * count
    whose = "its pod asks" if pods == 1 else f"its {pods} pods ask"
    return tuple(
        f"{whose} for {show_amount(totals[room.resource])} {room.resource}, "
        f"but {room.kind} {room.name} leaves {room.left} of {room.hard}"
        for room in rooms
        if totals.get(room.resource, 0) > room.left
    )
