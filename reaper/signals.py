"""Signals of devices over one window, joined by pod; plain values, made elsewhere and judged elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

import msgspec
from msgspec import Struct

from reaper.sources import Metric, Role, Sharing

PodKey = tuple[str, str]
"""Namespace and name of a pod."""


class Reading(Struct, frozen=True):
    """One metric of one device over the window; values are in the metric's unit.

    Attributes:
        metric: The row of the exporter's table.
        source: The exporter.
        maximum: The largest sample that can be true; None without one.
        average: The mean of such samples; None where it was not asked for.
        samples: At how many of the steps such a sample exists.
        expected: The number of steps; 0 where the interval cannot be told.
        discarded: In how many slices of one interval a sample was out of range.
        interval: Seconds between two scrapes; None if it cannot be told.
        last_sample: When the last sample was taken; None if it is older than Prometheus looks back.
        last: The last value; None where it was not asked for.
        above: When the value was last at or above a threshold in percent, by threshold: None if never,
            absent if that was not asked for.
        seen_since: Since when there is data without a gap, as far as it was looked for.
        query: PromQL that shows the maximum for all devices; empty where it was not asked for.
        moved: By how much the seconds since the last kernel changed lately; None of other metrics.
    """

    metric: Metric
    source: str
    maximum: float | None = None
    average: float | None = None
    samples: int = 0
    expected: int = 0
    discarded: int = 0
    interval: float | None = None
    last_sample: datetime | None = None
    last: float | None = None
    above: Mapping[int, datetime | None] = msgspec.field(default_factory=dict)
    seen_since: datetime | None = None
    query: str = ""
    moved: float | None = None

    @property
    def coverage(self) -> float | None:
        """The share of the steps with a sample that can be true, 0 to 1; None where it cannot be told."""
        return min(1.0, self.samples / self.expected) if self.expected else None

    @property
    def ran_at(self) -> datetime | None:
        """When the last kernel ran, by a last-kernel reading; None if it does not tell."""
        if self.last is None or self.last_sample is None:
            return None
        return self.last_sample - timedelta(seconds=self.last)


class Device(Struct, frozen=True):
    """A device, MIG instance or share, as the series of one pod's container name it.

    Attributes:
        device: The physical device.
        instance: The part of it, empty for the whole.
        container: The container, empty where the series do not say.
        sharing: Whether the series describe a device or a share.
        virtual: Whether the values are one sharer's part of a device.
        uid: The pod's UID, empty where the series do not say.
        readings: By metric.
        divided: Whether the physical device is cut into parts that its metrics do not tell apart.
        rests: Whether idleness needs a power that shows the device at rest, too.
        joined: Whether its activity is that of the whole device, told by a source that names no pods.
    """

    device: str
    instance: str
    container: str
    sharing: Sharing
    virtual: bool = False
    uid: str = ""
    readings: tuple[Reading, ...] = ()
    divided: bool = False
    rests: bool = False
    joined: bool = False

    @property
    def name(self) -> str:
        """The device with its instance."""
        return f"{self.device}/{self.instance}" if self.instance else self.device

    def of(self, *roles: Role) -> tuple[Reading, ...]:
        """The readings of some roles."""
        return tuple(one for one in self.readings if one.metric.role in roles)


class Board(Struct, frozen=True):
    """What is known of a physical device, whoever uses it.

    Attributes:
        fault_code: The largest Xid or other code of a fault in the window; 0 if all are older.
        faults: By how much uncorrectable memory errors rose in the window.
        moved: The least that the energy counter moved in any part of the window; None without a counter.
        host: The activity of the whole card.
        watts: The highest power; None if no metric tells.
        pods: The pods whose series name the device, by instance.
        activity: The largest activity in percent of any series that describes the device itself, by instance.
        whole: The readings of series that name no pod, by instance.
        processes: What processes hold, told by a source that names no pods; its maximum is 0 if there was
            none in the window. None if no such source sees this device.
    """

    fault_code: float = 0.0
    faults: float = 0.0
    moved: float | None = None
    host: tuple[Reading, ...] = ()
    watts: float | None = None
    pods: Mapping[str, frozenset[PodKey]] = msgspec.field(default_factory=dict)
    activity: Mapping[str, float] = msgspec.field(default_factory=dict)
    whole: Mapping[str, tuple[Reading, ...]] = msgspec.field(default_factory=dict)
    processes: Reading | None = None


class Signals(Struct, frozen=True, dict=True):
    """All signals of one window.

    Attributes:
        seconds: The window.
        pods: Devices by pod.
        boards: Physical devices by name.
        allocated: The shares that were given out, used or not, by pod.
    """

    seconds: int
    pods: Mapping[PodKey, tuple[Device, ...]] = msgspec.field(default_factory=dict)
    boards: Mapping[str, Board] = msgspec.field(default_factory=dict)
    allocated: Mapping[PodKey, tuple[Device, ...]] = msgspec.field(default_factory=dict)

    @cached_property
    def users(self) -> Mapping[str, frozenset[PodKey]]:
        """The pods whose series name a physical device, by its name; found out once for all pods."""
        found: dict[str, set[PodKey]] = {}
        for key, devices in self.pods.items():
            for device in devices:
                found.setdefault(device.device, set()).add(key)
        return {name: frozenset(keys) for name, keys in found.items()}
