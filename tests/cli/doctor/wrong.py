"""Pieces of what can be wrong, for the rows of the cases."""

from __future__ import annotations

from typing import Any

from cli.doctor.facts import Canary, Facts, Seen
from cli.doctor.findings import Level
from policy.selection import PolicySet
from reaper.exporters import DCGM, HAMI
from reaper.rights import Right
from reaper.signals import Board
from reaper.sources import Role, Sharing
from tests.cli.doctor.healthy import (
    COMPONENTS,
    component,
    healthy,
    metric_facts,
    with_metrics,
)
from tests.reaper.judging.made import device, reading

ERROR, WARNING, INFO, UNKNOWN = Level.ERROR, Level.WARNING, Level.INFO, Level.UNKNOWN
Case = tuple[str, Facts, str, Level, str]


def others(*changed: Any) -> Seen[Any]:
    """The Deployments, with some of them changed; a name alone is one that is missing."""
    names = {one if isinstance(one, str) else one.name.removeprefix("gpu-tenure-") for one in changed}
    kept = [component(one) for one in COMPONENTS if one not in names]
    return Seen((*kept, *(one for one in changed if not isinstance(one, str))))


def policies(*objects: dict[str, Any]) -> Seen[PolicySet]:
    """GPUPolicies."""
    return Seen(PolicySet.of(objects))


def labels(**wanted: str) -> dict[str, Any]:
    """A selector of namespaces."""
    return {"namespaceSelector": {"matchLabels": wanted}}


def refused(message: str, status: int = 403) -> Facts:
    """A canary that was refused."""
    return healthy(canary=Canary("default", status, message))


def shares(*maxima: float, virtual: bool = False, watts: float | None = None) -> Facts:
    """Shares of one card, which works by its own reading, or by its power."""
    host = next(one for one in HAMI.metrics if one.role is Role.HOST)
    util = HAMI.metrics[0] if not virtual else DCGM.metrics[0]
    made = [
        device(
            reading(util, maximum=one),
            name="GPU-0",
            instance=str(index),
            sharing=Sharing.DEVICE if virtual else Sharing.SHARE,
            virtual=virtual,
        )
        for index, one in enumerate(maxima)
    ]
    board = Board(host=() if watts else (reading(host, maximum=90.0),), watts=watts)
    return with_metrics(*made, boards={"GPU-0": board})


FORBIDDEN = Seen[Any](hidden="not readable with your rights")
BOTH = frozenset({"exported_namespace", "exported_pod"})
MISSING = (Right("", "pods", "patch"),)
CRON = {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{}]}}}}}
NO_PODS = metric_facts(boards={"GPU-0": Board(moved=1.0)})
