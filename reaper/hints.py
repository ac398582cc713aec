"""Reads which pods an Alertmanager webhook speaks of; must not know HTTP, or what is done about them.

A hint is no evidence: whoever may post one can only make the reaper look, which it does anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from policy.syntax import is_subdomain
from reaper.alerts import OURS

VERSION: Final = "4"
FIRING: Final = "firing"
PAIRS: Final = (
    ("exported_namespace", "exported_pod"),
    ("podnamespace", "podname"),
    ("exported_pod_namespace", "exported_pod_name"),
    ("pod_namespace", "pod_name"),
    ("namespace", "pod_name"),
    ("namespace", "pod"),
)
"""Labels that name a workload. What an exporter itself said stands first: where Prometheus has renamed its
labels to `exported_…`, `namespace` and `pod` are those of the exporter."""


class Hint(Struct, frozen=True):
    """A pod that somebody should look at."""

    namespace: str
    pod: str


class Message(Struct, frozen=True):
    """What a message says: the pods of its firing alerts, and how many firing alerts name no pod."""

    hints: frozenset[Hint]
    unreadable: int = 0


class UnreadableError(Exception):
    """The body is no message of Alertmanager; the same body will never be one."""


class _Alert(Struct):
    status: str = ""
    labels: dict[str, str] = {}


class _Webhook(Struct):
    version: str
    alerts: tuple[_Alert, ...]


def read_message(body: bytes) -> Message:
    """Reads a message; fields that nobody knows are ignored, and so are alerts that are over, or our own.

    Raises:
        UnreadableError: it is not the JSON of version 4 of Alertmanager's webhook.
    """
    try:
        found = msgspec.json.decode(body, type=_Webhook)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"is no message of Alertmanager: {error}") from error
    if found.version != VERSION:
        raise UnreadableError(f"version: must be {VERSION}, as Alertmanager's webhook_configs send it")
    firing = [
        one for one in found.alerts if one.status == FIRING and one.labels.get("alertname", "") not in OURS
    ]
    read = [hint_of(one.labels) for one in firing]
    return Message(frozenset(hint for hint in read if hint is not None), read.count(None))


def hint_of(labels: Mapping[str, str]) -> Hint | None:
    """Gives the pod that an alert is about; None if its labels name none."""
    for namespace, pod in PAIRS:
        hint = Hint(labels.get(namespace, ""), labels.get(pod, ""))
        if is_subdomain(hint.namespace, 63) and is_subdomain(hint.pod):
            return hint
    return None
