"""Says which alerts hold, from what is written on pods; must not know Alertmanager, its API or a clock.

An alert lasts as long as what it speaks of, and its labels follow from that alone: whoever computes it again,
after a restart or as another leader, gets the same alert. What users wrote goes into values only, cleaned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from policy.durations import format_time
from policy.keys import Annotation
from policy.terms import Action
from reaper import messages
from reaper.fates import Fate
from reaper.marks import Mark
from reaper.outlook import Ceiling
from reaper.owners import Root
from reaper.pods import GpuPod
from reaper.subjects import Subject
from runtime.events import cut

LABEL_CHARACTERS: Final = 128
TEXT_BYTES: Final = 1024
HARMFUL: Final = re.compile(r"[^\w .:@/+=,-]")
MARKUP: Final = str.maketrans({"<": "(", ">": ")"})
"""What Slack would read as a mention or a link."""

RECLAIMED_SECONDS: Final = 900
"""How long an alert about something that happened lasts: Alertmanager tells a group every five minutes."""


class AlertName(StrEnum):
    """Names of alerts."""

    IDLE_WARNING = "GPUTenureIdleWarning"
    RECLAIMED = "GPUTenureReclaimed"
    DEADLINE_APPROACHING = "GPUTenureDeadlineApproaching"
    DEADLINE_EXCEEDED = "GPUTenureDeadlineExceeded"


OURS: Final = frozenset(AlertName)


class Stage(StrEnum):
    """How far a warning is: its label `stage`, so that the second half of the grace is told anew."""

    WARNED = "warned"
    HALFWAY = "halfway"


class Alert(Struct, frozen=True, kw_only=True):
    """One alert.

    Attributes:
        labels: Its identity.
        annotations: What people read.
        starts_at: Since when it holds.
        ends_at: Until when at most; None if nobody knows.
    """

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: datetime
    ends_at: datetime | None = None

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The identity as a value that can be compared and hashed."""
        return tuple(sorted(self.labels.items()))


def label_value(text: str) -> str:
    """Gives text as a label value: letters, digits and a few signs; anything else, markup too, is `_`."""
    return HARMFUL.sub("_", text[:LABEL_CHARACTERS]).strip()


def prose(text: str) -> str:
    """Gives text as an annotation: one line without control characters or markup, and not too long."""
    plain = text.translate(MARKUP)
    if not plain.isprintable():
        plain = "".join(sign if sign.isprintable() else " " for sign in plain)
    return cut(plain, TEXT_BYTES)


def alert_of(
    name: AlertName,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    starts_at: datetime,
    ends_at: datetime | None = None,
) -> Alert:
    """Gives an alert with clean values; empty ones are left out, as Alertmanager drops them too."""
    clean = {key: label_value(value) for key, value in labels.items()}
    told = {key: prose(value) for key, value in annotations.items()}
    return Alert(
        labels={"alertname": name.value, **{key: value for key, value in clean.items() if value}},
        annotations={key: value for key, value in told.items() if value},
        starts_at=starts_at,
        ends_at=ends_at,
    )


def about(pod: GpuPod, root: Root, policy: str) -> dict[str, str]:
    """Gives the labels that name a pod and whose it is."""
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        **owner_labels(root),
        "requester": pod.annotations.get(Annotation.REQUESTED_BY, ""),
        "policy": policy,
    }


def owner_labels(root: Root) -> dict[str, str]:
    """Gives the labels of a root owner: in one piece, to name it, and in two, to match by."""
    return {"owner": f"{root.kind}/{root.name}", "owner_kind": root.kind, "owner_name": root.name}


def idle_warning(
    subject: Subject, mark: Mark | None, ceiling: Ceiling, fate: Fate | None, contact: str, now: datetime
) -> Alert | None:
    """Gives the alert of a warned pod; None if it is not warned, or its user asked to keep it for now.

    `ceiling` is the most that may be done to its group, `fate` what an eviction does to its Job.
    At half of the grace one alert ends and the next begins, so that people hear of it twice.
    """
    if mark is None or not mark.warned or not subject.holds_devices or subject.terms is None:
        return None
    halfway = mark.reclaim_at - subject.terms.grace.delta / 2 if mark.reclaim_at else None
    stage = Stage.HALFWAY if halfway is not None and now >= halfway else Stage.WARNED
    kept = subject.snooze.until is not None and subject.snooze.until > now
    if kept and stage is Stage.WARNED:
        return None
    action = _announced(subject, mark, ceiling)
    announced = messages.announced_of(action, subject.root, fate)
    whom = subject.contact(contact)
    began = mark.idle_since + subject.terms.after.delta
    if stage is Stage.HALFWAY and halfway is not None:
        began = halfway
    return alert_of(
        AlertName.IDLE_WARNING,
        {
            **about(subject.pod, subject.root, subject.policy.name),
            "action": action.value,
            "stage": stage.value,
            "severity": "warning",
        },
        {
            "summary": _summary(subject, mark, now),
            "description": messages.warning(subject, mark, whom, now, ceiling.lowered_by, announced),
            "idle_since": format_time(mark.idle_since),
            "reclaim_at": format_time(mark.reclaim_at) if mark.reclaim_at else "",
            "keep": keep_command(subject.pod) if mark.reclaim_at else "",
            "contact": whom,
        },
        min(began, now),
        halfway if stage is Stage.WARNED else None,
    )


def reclaimed(subject: Subject, action: Action, sentence: str, contact: str, now: datetime) -> Alert:
    """Gives the alert that something was taken; `sentence` says what was done and how to get it back."""
    return alert_of(
        AlertName.RECLAIMED,
        {
            **about(subject.pod, subject.root, subject.policy.name),
            "action": action.value,
            "severity": "info",
        },
        {
            "summary": f"{messages.devices(subject.devices)} of {subject.pod.namespace}/{subject.pod.name}"
            " were reclaimed",
            "description": sentence,
            "contact": subject.contact(contact),
        },
        now,
        now + timedelta(seconds=RECLAIMED_SECONDS),
    )


def keep_command(pod: GpuPod) -> str:
    """Gives the command that keeps a pod."""
    return f"kubectl annotate pod {pod.name} -n {pod.namespace} {Annotation.KEEP_UNTIL}=4h"


def _summary(subject: Subject, mark: Mark, now: datetime) -> str:
    named = f"{messages.devices(subject.devices)} of {subject.pod.namespace}/{subject.pod.name} idle"
    if mark.reclaim_at is None:
        return f"{named} since {messages.clock(mark.idle_since, now)}"
    return f"{named}, reclaimed at {messages.clock(mark.reclaim_at, now)}"


def _announced(subject: Subject, mark: Mark, ceiling: Ceiling) -> Action:
    """Gives what a warning announces; one that is void and not yet withdrawn still says what it did."""
    if mark.reclaim_at is None:
        return Action.WARN
    if ceiling.acts:
        return ceiling.action
    return subject.ceiling if subject.ceiling.rank > Action.WARN.rank else Action.WARN
