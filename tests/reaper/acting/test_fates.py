"""What an eviction does to a Job, and that its warning says so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reaper.fates import Fate, RunningJob, fate_of
from reaper.owners import OwnerResolver, Root
from runtime.kube import ApiError
from tests.reaper.acting.kube import FakeKube
from tests.reaper.acting.made import pod_of
from tests.reaper.acting.worlds import FakeWorld

TRAIN = Root("batch/v1", "Job", "team-a", "train", "uid-train")
PATH = "/apis/batch/v1/namespaces/team-a/jobs/train"


def rule(action: str, **conditions: Any) -> dict[str, Any]:
    """Gives a rule of a podFailurePolicy for disrupted pods."""
    condition = {"type": "DisruptionTarget", "status": "True", **conditions}
    return {"action": action, "onPodConditions": [condition]}


def policy(*rules: Any) -> dict[str, Any]:
    """Gives a podFailurePolicy."""
    return {"podFailurePolicy": {"rules": list(rules)}}


CASES = [
    pytest.param({}, 0, Fate.RESTARTS, id="six attempts are left"),
    pytest.param({"backoffLimit": 0}, 0, Fate.ENDS, id="it may not fail"),
    pytest.param({"backoffLimit": 2}, 2, Fate.ENDS, id="it may not fail any more"),
    pytest.param({"backoffLimit": 2}, 1, Fate.RESTARTS, id="it may fail once more"),
    pytest.param(
        {"backoffLimit": 0, **policy(rule("Ignore"))}, 0, Fate.RESTARTS, id="it ignores disruptions"
    ),
    pytest.param(policy(rule("FailJob")), 0, Fate.ENDS, id="it fails on disruptions"),
    pytest.param(policy(rule("Count")), 6, Fate.ENDS, id="it counts disruptions"),
    pytest.param(
        {"backoffLimit": 0, **policy(rule("Ignore", type="ConfigIssue"))},
        0,
        Fate.ENDS,
        id="it ignores something else",
    ),
    pytest.param(
        policy({"action": "FailJob", "onExitCodes": {"values": [1]}}, rule("Ignore")),
        6,
        Fate.RESTARTS,
        id="rules about exit codes do not decide",
    ),
    pytest.param({"backoffLimitPerIndex": 1}, 6, Fate.RESTARTS, id="each index may fail"),
    pytest.param({"backoffLimitPerIndex": 0}, 0, Fate.ENDS, id="no index may fail"),
]


@pytest.mark.parametrize(("spec", "failed", "fate"), CASES)
def test_what_becomes_of_a_job(spec: Any, failed: int, fate: Fate) -> None:
    """When one of its pods is evicted."""
    job = msgspec.convert({"spec": spec, "status": {"failed": failed}}, RunningJob)
    assert fate_of(job, 1) is fate


def test_all_pods_of_a_run_count() -> None:
    """Eight ranks use up more than six attempts."""
    assert fate_of(RunningJob(), 8) is Fate.ENDS


@pytest.mark.parametrize(
    ("answer", "fate"),
    [
        pytest.param(
            {"metadata": {"uid": "uid-train"}, "spec": {"backoffLimit": 0}}, Fate.ENDS, id="it is read"
        ),
        pytest.param({"metadata": {"uid": "another"}}, None, id="a namesake says nothing"),
        pytest.param(ApiError(500, "", "x"), None, id="one that cannot be read says nothing"),
    ],
)
async def test_the_job_itself_is_asked(answer: Any, fate: Fate | None) -> None:
    """Right when the warning is written."""
    resolver = OwnerResolver(FakeKube({("GET", PATH): answer}))
    assert await resolver.fate(pod_of("a", owner=TRAIN), 1) is fate
    assert await resolver.fate(pod_of("a"), 1) is None


@pytest.mark.parametrize(("fate", "words"), [(Fate.ENDS, "ends the Job"), (Fate.RESTARTS, "restarts it")])
async def test_a_warning_says_what_becomes_of_the_job(fate: Fate, words: str) -> None:
    """Before anything happens."""
    world = FakeWorld()
    world.owners.chosen["rank-0"] = TRAIN
    world.owners.fates["rank-0"] = fate
    world.add("rank-0", owner=TRAIN)
    await world.run(3)
    (note,) = [note for _, reason, note in world.events.sent if reason == "GPUIdleWarning"]
    assert words in note
