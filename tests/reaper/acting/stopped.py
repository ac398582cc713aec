"""Worlds under a policy that stops owners."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from policy.selection import PolicySet
from policy.terms import Action, terms_to_labels
from reaper.owners import Root
from tests.reaper.acting.made import LABELS, POLICY, TERMS
from tests.reaper.acting.worlds import FakeWorld

WEB = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")
TRAIN = Root("batch/v1", "Job", "team-a", "train", "uid-train")
AGENT = Root("apps/v1", "DaemonSet", "team-a", "agent", "uid-agent")
STOPPING = {
    **POLICY,
    "spec": {
        **POLICY["spec"],
        "idle": {**POLICY["spec"]["idle"], "action": "stop"},
        "classes": {},
    },
}
STOP_LABELS = {**LABELS, **terms_to_labels(structs.replace(TERMS, action=Action.STOP))}


def stage(root: Root | None, *names: str, **settings: Any) -> FakeWorld:
    """Gives a world of idle pods of one owner under a policy that stops."""
    world = FakeWorld(**settings)
    world.policies = PolicySet.of([STOPPING])
    for name in names:
        if root is not None:
            world.owners.chosen[name] = root
        world.add(name, labels=STOP_LABELS)
    return world
