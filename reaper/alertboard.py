"""Keeps which alerts hold, and says what to post and until when; must not know how alerts travel.

Alertmanager forgets: an alert ends when its `endsAt` has passed. So everything that holds is posted again
each cycle, with an end a few minutes ahead, and whatever is lost on the way comes again or lapses by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import structs

from reaper.alerts import Alert

Key = tuple[tuple[str, str], ...]


class Topic(StrEnum):
    """What is computed together: a topic that is not computed in a cycle stays as it was."""

    IDLE = "idle"
    DEADLINES = "deadlines"


class AlertsPort(Protocol):
    """Whom a cycle tells which alerts hold; tests implement it. Nothing here waits or raises."""

    def show(
        self, topic: Topic, alerts: Collection[Alert], now: datetime, before: Collection[Alert] = ()
    ) -> None:
        """Says all alerts of a topic that hold now; those of before that are not among them end.

        `before` are some that another process may have told.
        """
        ...

    def add(self, alert: Alert) -> None:
        """Says that something happened; the alert lasts until its own end."""
        ...

    def again(self, topic: Topic, now: datetime) -> None:
        """Says that a topic is as before, because nobody could look."""
        ...


class Carrier(Protocol):
    """Takes alerts to Alertmanager, some time or never."""

    def offer(self, alerts: Collection[Alert]) -> None:
        """Takes alerts that are to be posted; the newest with the same labels counts."""
        ...


class NoAlerts:
    """The AlertsPort of a reaper that tells Alertmanager nothing."""

    def show(
        self, topic: Topic, alerts: Collection[Alert], now: datetime, before: Collection[Alert] = ()
    ) -> None:
        """Tells nothing."""

    def add(self, alert: Alert) -> None:
        """Tells nothing."""

    def again(self, topic: Topic, now: datetime) -> None:
        """Tells nothing."""


class AlertBoard:
    """The AlertsPort that keeps what holds and offers it to carriers.

    `hold_seconds` is how long an alert stays without being posted again; more than one cycle.
    """

    def __init__(self, carriers: Collection[Carrier], hold_seconds: float) -> None:
        self._carriers = tuple(carriers)
        self._hold = timedelta(seconds=hold_seconds)
        self._shown: dict[Topic, dict[Key, Alert]] = {}
        self._happened: dict[Key, Alert] = {}

    def show(
        self, topic: Topic, alerts: Collection[Alert], now: datetime, before: Collection[Alert] = ()
    ) -> None:
        """Says all alerts of a topic that hold now; those of before that are not among them end."""
        holding = {alert.key: alert for alert in alerts}
        known = {alert.key: alert for alert in before} | self._shown.get(topic, {})
        ended = [alert for key, alert in known.items() if key not in holding]
        self._shown[topic] = holding
        self._post([*(structs.replace(alert, ends_at=now) for alert in ended), *self._lasting(topic, now)])

    def add(self, alert: Alert) -> None:
        """Says that something happened; the alert lasts until its own end."""
        self._happened[alert.key] = alert
        self._post([alert])

    def again(self, topic: Topic, now: datetime) -> None:
        """Says that a topic is as before, because nobody could look."""
        self._post(self._lasting(topic, now))

    def _lasting(self, topic: Topic, now: datetime) -> list[Alert]:
        """Gives what holds, with the end that is posted now: an own end that is near, or a few minutes."""
        self._happened = {
            key: one for key, one in self._happened.items() if one.ends_at is None or one.ends_at > now
        }
        limit = now + self._hold
        held = self._shown.get(topic, {}).values()
        lasting = [structs.replace(one, ends_at=min(one.ends_at or limit, limit)) for one in held]
        return [*lasting, *self._happened.values()]

    def _post(self, alerts: Collection[Alert]) -> None:
        for carrier in self._carriers if alerts else ():
            carrier.offer(alerts)
