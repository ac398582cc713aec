"""What the exporter simulator knows: assignments and activities, kept in a file; talks to nobody."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from sandbox.activity import ActivityError, Profile, parse_activity
from sandbox.devices import Assignment, GpuPod, Node, Slot, assign
from sandbox.shapes import View


@dataclass(frozen=True)
class Remembered:
    """What must survive a restart of the simulator.

    Attributes:
        assignment: Who holds which device.
        activities: By pod UID the annotation as read, and what it meant when it was first seen.
    """

    assignment: Assignment = field(default_factory=Assignment)
    activities: dict[str, tuple[str, tuple[Profile, ...]]] = field(default_factory=dict)

    @property
    def profiles(self) -> dict[str, tuple[Profile, ...]]:
        """The activity of each pod, by UID."""
        return {uid: profiles for uid, (_, profiles) in self.activities.items()}

    def dump(self) -> str:
        """Writes it as JSON."""
        slots = {uid: [astuple(slot) for slot in slots] for uid, slots in self.assignment.slots.items()}
        activities = {
            uid: [text, [astuple(profile) for profile in profiles]]
            for uid, (text, profiles) in self.activities.items()
        }
        return json.dumps({"slots": slots, "activities": activities})

    @classmethod
    def load(cls, text: str) -> Remembered:
        """Reads what `dump` wrote."""
        data: dict[str, Any] = json.loads(text)
        slots = {uid: tuple(Slot(*slot) for slot in found) for uid, found in data["slots"].items()}
        activities = {
            uid: (annotation, tuple(Profile(*profile) for profile in profiles))
            for uid, (annotation, profiles) in data["activities"].items()
        }
        return cls(Assignment(slots), activities)


def remember(before: Remembered, nodes: Sequence[Node], pods: Sequence[GpuPod], now: float) -> Remembered:
    """Brings what is remembered up to date; an unreadable activity says nothing (silent)."""
    activities = {}
    for pod in pods:
        known = before.activities.get(pod.uid)
        activities[pod.uid] = (
            known if known and known[0] == pod.activity else (pod.activity, _read(pod.activity, now))
        )
    return Remembered(assign(before.assignment, nodes, pods), activities)


def _read(text: str, now: float) -> tuple[Profile, ...]:
    try:
        return parse_activity(text, now)
    except ActivityError:
        return (Profile("silent"),)


class Census:
    """The current state, safe to use from several threads."""

    def __init__(self, state: Path) -> None:
        self._file = state
        self._lock = threading.Lock()
        self._remembered = Remembered.load(state.read_text()) if state.is_file() else Remembered()
        self._nodes: Sequence[Node] = ()
        self._pods: Sequence[GpuPod] = ()

    def update(self, nodes: Sequence[Node], pods: Sequence[GpuPod], now: float) -> None:
        """Takes the nodes and running GPU pods as they are now."""
        with self._lock:
            after = remember(self._remembered, nodes, pods, now)
            if after != self._remembered:
                partial = self._file.with_suffix(".partial")
                partial.write_text(after.dump())
                partial.replace(self._file)
            self._remembered, self._nodes, self._pods = after, nodes, pods

    def view(self, at: float, interval: float, exporter: str = "") -> View:
        """Gives what the exporter of this name sees; an empty name sees everything."""
        with self._lock:
            pods = [pod for pod in self._pods if not exporter or pod.exporter == exporter]
            holdings = self._remembered.assignment.holdings(pods)
            return View(self._nodes, holdings, self._remembered.profiles, at, interval)

    def dump(self) -> str:
        """Writes what is remembered as JSON."""
        with self._lock:
            return self._remembered.dump()
