"""The address of a pod's logs, from a template of the settings; must not know who shows it.

A template is an http address with placeholders in its path, query or fragment, never in its host:
`https://grafana.example.com/explore?ns={namespace}&pod={pod}&from={from_ms}&to={to_ms}`. Values are quoted as
parts of an address, so that no name can lead elsewhere.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote, urlsplit

from policy.durations import format_time
from reaper.owners import Root
from reaper.pods import GpuPod

PLACEHOLDERS: Final = ("namespace", "pod", "uid", "node", "owner", "from", "to", "from_ms", "to_ms")
LONGEST: Final = 2048
TAIL: Final = timedelta(minutes=10)
"""What a container says while it is being ended comes after the decision."""


def check_template(template: str) -> str:
    """Gives the template if it can be used.

    Raises:
        ValueError: it is no http address, a placeholder is unknown, or one is in the host.
    """
    try:
        parts = [part for part in string.Formatter().parse(template) if part[1] is not None]
        host = urlsplit(template)
    except ValueError as error:
        raise ValueError(f"cannot be read: {error}") from error
    for _, name, format_spec, conversion in parts:
        if name not in PLACEHOLDERS or format_spec or conversion:
            raise ValueError(f"{{{name}}} is no placeholder; there are {', '.join(PLACEHOLDERS)}")
    if host.scheme not in {"http", "https"} or not host.hostname or "{" in host.netloc or "@" in host.netloc:
        raise ValueError("must be an address such as https://grafana.example.com/logs?pod={pod}")
    return template


def logs_url(template: str, pod: GpuPod, root: Root, decided_at: datetime) -> str | None:
    """Gives the address of the logs of a pod's whole life; None without a template, or if it is too long."""
    if not template:
        return None
    begin, end = pod.created, decided_at + TAIL
    values: Mapping[str, str] = {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "node": pod.node or "",
        "owner": root.name,
        "from": format_time(begin),
        "to": format_time(end),
        "from_ms": str(round(begin.timestamp() * 1000)),
        "to_ms": str(round(end.timestamp() * 1000)),
    }
    url = template.format(**{name: quote(value, safe="") for name, value in values.items()})
    return url if len(url) <= LONGEST else None
