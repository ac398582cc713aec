"""Plans for made subjects, and what tests read from a plan; knows no fake."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from policy.verdicts import Reason
from reaper.limits import Limits
from reaper.marks import Mark
from reaper.owners import Root
from reaper.pause import Pause
from reaper.plan import Plan, plan
from reaper.situation import Situation
from reaper.steps import Change
from tests.reaper.acting.made import AFTER, NOON, minutes

RUN = Root("batch/v1", "Job", "team-a", "train", "uid-train")
DEPLOYMENT = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")
DAEMON = Root("apps/v1", "DaemonSet", "team-a", "agent", "uid-agent")
LIMITS = Limits(device_percent=100)
FRESH = Mark(NOON - timedelta(seconds=AFTER) - minutes(20), reclaim_at=NOON + minutes(10))


def planned(*subjects: Any, records: Any = (), limits: Limits = LIMITS, **situation: Any) -> Plan:
    """Plans for a calm cluster of a hundred devices."""
    given = {"pause": Pause(paused=False), "judged_devices": 100, **situation}
    return plan(subjects, records, Situation(**given), limits, NOON)


def acted(found: Plan) -> list[str]:
    """Gives the names of the pods that are acted on."""
    return [member.pod.name for group in found.actions for member in group.members]


def skips(found: Plan) -> dict[str, Reason]:
    """Gives the reason by which each pod is left alone."""
    return {skip.subject.pod.name: skip.reason for skip in found.skips}


def changes(found: Plan) -> dict[str, Change]:
    """Gives the change of each pod's mark."""
    return {step.subject.pod.name: step.change for step in found.steps}
