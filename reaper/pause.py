"""Reads and writes the switch that stops every warning and action; must not know what it stops.

The switch is a ConfigMap. Whatever cannot be understood counts as paused: a reaper that is not sure that it
may act does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from policy.durations import format_time, parse_time
from policy.errors import FormatError
from policy.keys import OWN_NAMESPACE
from reaper.clocks import TOLERANCE_SECONDS, disagreement, server_time
from runtime.kube import MERGE_PATCH, ApiError, ApiUnreachable, KubePort

CONFIG_MAP = "gpu-tenure-pause"

PAUSED = "paused"
REASON = "reason"
UNTIL = "until"
RESUMED_AT = "resumed-at"
BRAKE_RELEASED_AT = "brake-released-at"


class Pause(Struct, frozen=True, kw_only=True):
    """The switch as read at one moment.

    Attributes:
        paused: True if nothing may be warned or acted on.
        reason: Why, for people; empty if not paused.
        until: When the pause ends by itself; None if only a person ends it.
        resumed_at: When the last pause ended; reclaim times start again from here.
        brake_released_at: When a person last released the brake.
    """

    paused: bool
    reason: str = ""
    until: datetime | None = None
    resumed_at: datetime | None = None
    brake_released_at: datetime | None = None


class _FieldsEntry(Struct, frozen=True):
    time: str | None = None


class _Metadata(Struct, frozen=True, rename="camel"):
    managed_fields: list[_FieldsEntry] | None = None


class _ConfigMap(Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    data: dict[str, str] | None = None


def pause_of(data: Mapping[str, str], changed_at: datetime | None, now: datetime) -> Pause:
    """Reads the switch; `changed_at` is when the ConfigMap was last written, if the API server said so."""
    try:
        until = _time(data, UNTIL)
        resumed_at = _time(data, RESUMED_AT)
        released_at = _time(data, BRAKE_RELEASED_AT)
    except FormatError as error:
        return Pause(paused=True, reason=f"{CONFIG_MAP}: {error}")
    said = data.get(PAUSED)
    if said not in {"true", "false"}:
        return Pause(paused=True, reason=f'{CONFIG_MAP}: {PAUSED} must be "true" or "false"')
    over = until is not None and until <= now
    if said == "true" and not over:
        reason = data.get(REASON) or "no reason given"
        return Pause(paused=True, reason=reason, until=until, brake_released_at=released_at)
    ended = until if said == "true" else resumed_at or changed_at
    return Pause(paused=False, resumed_at=ended, brake_released_at=released_at)


def _time(data: Mapping[str, str], key: str) -> datetime | None:
    text = data.get(key, "").strip()
    if not text:
        return None
    try:
        return parse_time(text)
    except FormatError as error:
        raise FormatError(f"{key}: {error}") from error


def parse_pause(body: bytes, now: datetime) -> Pause:
    """Reads the ConfigMap as the API server sends it; a body of another shape counts as paused."""
    try:
        found = msgspec.json.decode(body, type=_ConfigMap)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Pause(paused=True, reason=f"{CONFIG_MAP} is malformed: {error}")
    return pause_of(found.data or {}, _changed_at(found.metadata), now)


def _changed_at(metadata: _Metadata) -> datetime | None:
    times = []
    for entry in metadata.managed_fields or []:
        try:
            times.append(parse_time(entry.time or ""))
        except FormatError:
            continue
    return max(times, default=None)


async def read_pause(
    client: KubePort,
    now: datetime,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    namespace: str = OWN_NAMESPACE,
) -> Pause:
    """Asks the API server for the switch; missing and unreadable count as paused, and so do wrong clocks."""
    try:
        answer = await client.request("GET", _path(namespace))
    except ApiError as error:
        why = "is missing" if error.status == 404 else f"cannot be read: {error}"
        return Pause(paused=True, reason=f"ConfigMap {namespace}/{CONFIG_MAP} {why}")
    except ApiUnreachable as error:
        return Pause(paused=True, reason=f"ConfigMap {namespace}/{CONFIG_MAP} cannot be read: {error}")
    wrong = disagreement("the API server", server_time(answer.headers), now, tolerance_seconds)
    return Pause(paused=True, reason=wrong) if wrong else parse_pause(answer.body, now)


def paused_data(reason: str, until: datetime | None) -> dict[str, str | None]:
    """Gives the data that pauses, as a merge patch."""
    ends = None if until is None else format_time(until)
    return {PAUSED: "true", REASON: reason, UNTIL: ends, RESUMED_AT: None}


def resumed_data(now: datetime) -> dict[str, str | None]:
    """Gives the data that ends a pause, as a merge patch."""
    return {PAUSED: "false", REASON: "", UNTIL: None, RESUMED_AT: format_time(now)}


def released_data(now: datetime) -> dict[str, str | None]:
    """Gives the data that releases the brake, as a merge patch; a pause stays as it is."""
    return {BRAKE_RELEASED_AT: format_time(now)}


async def write_pause(
    client: KubePort, data: Mapping[str, str | None], namespace: str = OWN_NAMESPACE
) -> None:
    """Patches the switch, or makes it if it is missing; raises ApiError and ApiUnreachable."""
    body: dict[str, Any] = {"data": dict(data)}
    try:
        await client.request("PATCH", _path(namespace), body=body, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise
        made = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": namespace},
            "data": {key: value for key, value in data.items() if value is not None},
        }
        await client.request("POST", _path(namespace).rsplit("/", 1)[0], body=made)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"
