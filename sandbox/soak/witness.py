"""What the API server itself says of evictions: its audit log and the records; judges nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from policy.keys import API_VERSION
from sandbox.cluster import Sandbox
from sandbox.soak.cast import NAMESPACE
from sandbox.soak.truth import Eviction, Life, life_of
from sandbox.users import SYSTEM_NAMESPACE

RECORDS = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/gpureclaims"
REAPER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:gpu-tenure-reaper"
TAKEN = frozenset({"Accepted", "Gone"})
"""Phases of a record whose pod was evicted, or went at that time."""


def audited(lines: Iterable[str]) -> Iterator[Eviction]:
    """Gives the accepted evictions that an audit log tells; a line that was cut by a kill tells nothing."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        reference = entry.get("objectRef") or {}
        accepted = 200 <= (entry.get("responseStatus") or {}).get("code", 0) < 300
        ours = entry.get("user", {}).get("username") == REAPER
        asked = entry.get("verb") == "create" and reference.get("subresource") == "eviction"
        if accepted and ours and asked:
            at = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            yield Eviction(reference["namespace"], reference["name"], at)


def evictions(sandbox: Sandbox, lives: Iterable[Life]) -> list[Eviction]:
    """Gives every accepted eviction of the soak: as audited, and those that only a record still tells."""
    known = list(lives)
    with (sandbox.dir / "logs" / "audit.jsonl").open(errors="replace") as log:
        found = [one for one in audited(log) if one.namespace == NAMESPACE]
    seen = {life.uid for one in found if (life := life_of(known, one)) is not None}
    return found + [one for one in map(_of_record, records(sandbox)) if one.uid not in seen]


def records(sandbox: Sandbox) -> list[dict[str, Any]]:
    """Gives the records of pods that were evicted."""
    found = sandbox.api().list(RECORDS)
    return [one for one in found if phase_of(one) in TAKEN]


def open_records(sandbox: Sandbox) -> list[str]:
    """Gives the names of the pods whose action was begun and not completed."""
    found = sandbox.api().list(RECORDS)
    return [str(one["spec"]["pod"]["name"]) for one in found if phase_of(one) == "Planned"]


def phase_of(record: dict[str, Any]) -> str:
    """Gives how far an action came; without a status it was only planned."""
    return str(record.get("status", {}).get("phase", "Planned"))


def _of_record(record: dict[str, Any]) -> Eviction:
    pod, at = record["spec"]["pod"], datetime.fromisoformat(record["spec"]["decidedAt"])
    return Eviction(NAMESPACE, pod["name"], at.timestamp(), pod["uid"])
