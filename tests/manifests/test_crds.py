"""The schemas of our kinds on a real API server: wrong policies are refused by path, right ones accepted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.errors import InvalidError
from policy.gpupolicy import parse_policy
from sandbox.cluster import Sandbox

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "manifests" / "examples" / "policies").glob("*.yaml"))
POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
DURATION = "must be a duration such as 90m, 2h or 1d12h"
MEMORY = "must be a quantity such as 500Mi, at most 1Ei, or a percentage from 1% to 100%"

pytestmark = pytest.mark.usefixtures("release")

WITH_GPU = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
FULL: dict[str, Any] = {
    "priority": -5,
    "namespaceSelector": {
        "matchLabels": {"team": "a", "gpu-tenure.io/policy": "x"},
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "example.com/old", "operator": "DoesNotExist"},
        ],
    },
    "idle": {
        "action": "stop",
        "after": "1d2h3m4s",
        "utilization": 100,
        "statistic": "average",
        "memory": "5%",
        "grace": "0s",
        "warmUp": "0s",
        "of": "given",
        "neverTouched": True,
    },
    "deadline": {"default": "7d", "max": "14d", "jobs": "pod"},
    "classes": {
        "interactive": {"creators": ["system:serviceaccount:hub:hub"], "idle": {"after": "30m"}},
        "batch": {"idle": {"memory": 1048576}, "deadline": {"max": "30d"}},
        "serving": {"idle": {"action": "warn"}},
    },
    "bounds": {
        "after": {"min": "30m", "max": "12h"},
        "grace": "4h",
        "keepUntil": "72h",
        "exemption": "14d",
    },
    "scheduling": {
        "priorityClassName": "batch",
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"gpu": "a100"},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [WITH_GPU]}},
    },
    "images": {"allowed": ["registry.example.com/ml/"]},
    "actWindow": {"days": ["Mon", "Sun"], "from": "22:00", "to": "06:00", "timeZone": "Europe/Berlin"},
    "contact": {"text": "Ask Jürgen, desk 7", "url": "https://example.com/gpu"},
    "requireTerms": True,
    "requireUse": True,
}

GOOD: dict[str, dict[str, Any]] = {
    "an empty policy": {},
    "everything": FULL,
    "an empty deadline": {"deadline": {}},
    "a default above the default of max": {"deadline": {"default": "30d"}},
    "a max below the default of default": {"deadline": {"max": "1d"}},
    "a window until midnight": {"actWindow": {"from": "18:00", "to": "24:00"}},
    "a window of weekdays alone": {"actWindow": {"days": ["Sat"]}},
    "memory with an exponent": {"idle": {"memory": "1e9"}},
    "memory with a fraction": {"idle": {"memory": "1.5Gi"}},
    "memory as a number": {"idle": {"memory": 500000000}},
    "no exemption": {"bounds": {"exemption": "never"}},
    "ten years": {"idle": {"after": "3650d"}},
    "no grace": {"idle": {"grace": "0s"}},
    "images of every spelling": {
        "images": {
            "allowed": ["a.example", "a.example:5000/*", "python:3.12", f"a.example/x/y@sha256:{'0' * 64}"]
        }
    },
    "no image": {"images": {"allowed": []}},
}

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "a duration without a unit": ({"idle": {"after": "90"}}, "spec.idle.after", DURATION),
    "an empty duration": ({"idle": {"after": ""}}, "spec.idle.after", DURATION),
    "a duration in rising order": ({"idle": {"after": "30m2h"}}, "spec.idle.after", DURATION),
    "a unit twice": ({"idle": {"grace": "1h1h"}}, "spec.idle.grace", DURATION),
    "utilization of something else": ({"idle": {"of": "slice"}}, "spec.idle.of", '"card", "given"'),
    "a text for a choice": ({"idle": {"neverTouched": "yes"}}, "spec.idle.neverTouched", "boolean"),
    "a fraction of an hour": ({"idle": {"warmUp": "1.5h"}}, "spec.idle.warmUp", DURATION),
    "a duration of another language": ({"idle": {"after": "2 hours"}}, "spec.idle.after", DURATION),
    "no time at all": ({"idle": {"after": "0s"}}, "spec.idle.after", "must be longer than 0s"),
    "eleven years": ({"idle": {"after": "4015d"}}, "spec.idle.after", "must be at most ten years (3650d)"),
    "a deadline of no time": ({"deadline": {"max": "0m"}}, "spec.deadline.max", "must be longer than 0s"),
    "utilization of nothing": ({"idle": {"utilization": 0}}, "spec.idle.utilization", "1"),
    "utilization above all": ({"idle": {"utilization": 101}}, "spec.idle.utilization", "100"),
    "utilization as a share": (
        {"idle": {"utilization": 5.5}},
        "spec.idle.utilization",
        "must be of type int",
    ),
    "an unknown action": (
        {"idle": {"action": "kill"}},
        "spec.idle.action",
        '"observe", "warn", "evict", "stop"',
    ),
    "exemption as an action": ({"idle": {"action": "exempt"}}, "spec.idle.action", "Unsupported value"),
    "an unknown statistic": ({"idle": {"statistic": "p95"}}, "spec.idle.statistic", '"maximum", "average"'),
    "memory below nothing": ({"idle": {"memory": "-1Mi"}}, "spec.idle.memory", MEMORY),
    "no memory": ({"idle": {"memory": 0}}, "spec.idle.memory", MEMORY),
    "memory of 101 percent": ({"idle": {"memory": "101%"}}, "spec.idle.memory", MEMORY),
    "memory of nothing": ({"idle": {"memory": "0%"}}, "spec.idle.memory", MEMORY),
    "an image with a space": (
        {"images": {"allowed": ["a b"]}},
        "spec.images.allowed[0]",
        "must be a registry",
    ),
    "a registry by a pattern": (
        {"images": {"allowed": ["*.a"]}},
        "spec.images.allowed[0]",
        "must be a registry",
    ),
    "a right in words": ({"requireUse": "yes"}, "spec.requireUse", "boolean"),
    "memory in words": ({"idle": {"memory": "500 MB"}}, "spec.idle.memory", MEMORY),
    "memory with a monstrous exponent": ({"idle": {"memory": "1e9999999999"}}, "spec.idle.memory", MEMORY),
    "memory beyond every device": ({"idle": {"memory": "2Ei"}}, "spec.idle.memory", MEMORY),
    "a class's duration": (
        {"classes": {"batch": {"idle": {"after": "x"}}}},
        "spec.classes.batch.idle.after",
        DURATION,
    ),
    "an interactive deadline": (
        {"classes": {"interactive": {"deadline": {"max": "1d"}}}},
        "spec.classes.interactive.deadline",
        "only classes.batch may have a deadline",
    ),
    "a serving deadline": (
        {"classes": {"serving": {"deadline": {}}}},
        "spec.classes.serving.deadline",
        "only classes.batch may have a deadline",
    ),
    "a default above max": (
        {"deadline": {"default": "25h", "max": "1d"}},
        "spec.deadline.default",
        "must not be longer than max",
    ),
    "a batch default above its max": (
        {"classes": {"batch": {"deadline": {"default": "90m", "max": "1h"}}}},
        "spec.classes.batch.deadline.default",
        "must not be longer than max",
    ),
    "a batch default above the common max": (
        {"deadline": {"max": "1d"}, "classes": {"batch": {"deadline": {"default": "2d"}}}},
        "spec.classes.batch.deadline.default",
        "must not be longer than spec.deadline.max",
    ),
    "a batch max below the common default": (
        {"deadline": {"default": "2d"}, "classes": {"batch": {"deadline": {"max": "1d"}}}},
        "spec.classes.batch.deadline.max",
        "must not be shorter than spec.deadline.default",
    ),
    "deadlines of Jobs nowhere known": (
        {"deadline": {"jobs": "all"}},
        "spec.deadline.jobs",
        '"job", "pod", "none"',
    ),
    "bounds in the wrong order": (
        {"bounds": {"after": {"min": "2h", "max": "119m"}}},
        "spec.bounds.after.min",
        "must not be above max",
    ),
    "an endless exemption": (
        {"bounds": {"exemption": "always"}},
        "spec.bounds.exemption",
        "must be never, or a duration such as 14d",
    ),
    "an exemption of no time": (
        {"bounds": {"exemption": "0d"}},
        "spec.bounds.exemption",
        "must be never, or a duration such as 14d",
    ),
    "a selector without values": (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "spec.namespaceSelector.matchExpressions[0].values",
        "must have values with In and NotIn",
    ),
    "a selector with values too many": (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        "spec.namespaceSelector.matchExpressions[0].values",
        "none with Exists and DoesNotExist",
    ),
    "a selector with a wrong key": (
        {"namespaceSelector": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}},
        "spec.namespaceSelector.matchExpressions[0].key",
        "must be a valid label key",
    ),
    "a selector with a wrong label": (
        {"namespaceSelector": {"matchLabels": {"a/b/c": "x"}}},
        "spec.namespaceSelector.matchLabels",
        "must have valid label keys",
    ),
    "a selector with a wrong value": (
        {"namespaceSelector": {"matchLabels": {"a": "x y"}}},
        "spec.namespaceSelector.matchLabels[a]",
        "must be a valid label value",
    ),
    "a day nobody knows": (
        {"actWindow": {"days": ["Monday"]}},
        "spec.actWindow.days[0]",
        "Unsupported value",
    ),
    "no day": ({"actWindow": {"days": []}}, "spec.actWindow.days", "at least 1 items"),
    "a time beyond the day": (
        {"actWindow": {"from": "24:00"}},
        "spec.actWindow.from",
        "must be a time of day such as 08:30",
    ),
    "a window of no time": (
        {"actWindow": {"from": "08:00", "to": "08:00"}},
        "spec.actWindow.to",
        "must differ from from",
    ),
    "a zone that is none": (
        {"actWindow": {"timeZone": "Mars / North"}},
        "spec.actWindow.timeZone",
        "must be a time zone such as Europe/Berlin",
    ),
    "a contact of two lines": (
        {"contact": {"text": "a\nb"}},
        "spec.contact.text",
        "must be one line of printable characters",
    ),
    "a contact that runs": (
        {"contact": {"url": "javascript:alert(1)"}},
        "spec.contact.url",
        "must begin with https:// or http://",
    ),
    "an unknown operator of a toleration": (
        {"scheduling": {"tolerations": [{"key": "a", "operator": "Near"}]}},
        "spec.scheduling.tolerations[0].operator",
        "Unsupported value",
    ),
}


def policy(spec: dict[str, Any], name: str = "tried") -> dict[str, Any]:
    """A GPUPolicy."""
    return {
        "apiVersion": "gpu-tenure.io/v1alpha1",
        "kind": "GPUPolicy",
        "metadata": {"name": name},
        "spec": copy.deepcopy(spec),
    }


def try_to_create(sandbox: Sandbox, body: dict[str, Any]) -> Any:
    """Sends a policy without keeping it; unknown fields are errors, as kubectl wants them."""
    return sandbox.api().raw("POST", f"{POLICIES}?dryRun=All&fieldValidation=Strict", body)


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_good_policies_are_accepted(sandbox: Sandbox, spec: dict[str, Any]) -> None:
    """By the API server and by what reads them afterwards."""
    reply = try_to_create(sandbox, policy(spec))
    assert reply.status == 201, reply.text
    assert parse_policy(reply.json).name == "tried"


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_the_examples_are_accepted(sandbox: Sandbox, path: Path) -> None:
    """Each is stored and read as it is written."""
    body = yaml.safe_load(path.read_text())
    reply = try_to_create(sandbox, body | {"metadata": {"name": "example"}})
    assert reply.status == 201, reply.text
    assert reply.json["spec"].items() >= body["spec"].items()


@pytest.mark.parametrize(("spec", "path", "message"), BAD.values(), ids=BAD)
def test_bad_policies_are_refused(sandbox: Sandbox, spec: dict[str, Any], path: str, message: str) -> None:
    """The cause names the field, and the sentence what it should be."""
    reply = try_to_create(sandbox, policy(spec))
    assert reply.status == 422, reply.text
    causes = {cause["field"]: cause["message"] for cause in reply.json["details"]["causes"]}
    assert message in causes.get(path, ""), causes


@pytest.mark.parametrize("case", sorted(BAD))
def test_server_and_parser_agree(case: str) -> None:
    """What the schema refuses is refused offline too."""
    with pytest.raises(InvalidError):
        parse_policy(policy(BAD[case][0]))


@pytest.mark.parametrize(
    ("name", "message"),
    [("a" * 64, "must be at most 63 characters"), ("built-in", "must not be built-in")],
    ids=["a name too long for a label", "the reserved name"],
)
def test_names_are_bounded(sandbox: Sandbox, name: str, message: str) -> None:
    """Pods carry the name as a label's value."""
    reply = try_to_create(sandbox, policy({}, name))
    assert reply.status == 422
    assert message in reply.json["message"]
    with pytest.raises(InvalidError):
        parse_policy(policy({}, name))


def test_unknown_fields_are_named(sandbox: Sandbox) -> None:
    """A misspelt field is an error under strict validation, not a silent nothing."""
    reply = try_to_create(sandbox, policy({"idel": {"action": "warn"}}))
    assert reply.status == 400
    assert 'unknown field "spec.idel"' in reply.json["message"]


def test_columns_show_the_rule(sandbox: Sandbox) -> None:
    """`kubectl get gpol` answers what holds, for whom, and how many pods are idle."""
    api = sandbox.api()
    api.create(POLICIES, policy(FULL, "shown"))
    status = {
        "namespaces": 3,
        "pods": {"active": 1, "idle": 2, "unknown": 0, "skipped": 0},
        "problems": ["p"],
    }
    api.patch(f"{POLICIES}/shown/status", {"status": status})
    lines = sandbox.kubectl("get", "gpol", "shown").stdout.splitlines()
    assert lines[0].split() == [
        "NAME",
        "PRIORITY",
        "ACTION",
        "AFTER",
        "DEADLINE",
        "NAMESPACES",
        "IDLE",
        "AGE",
    ]
    assert lines[1].split()[:7] == ["shown", "-5", "stop", "1d2h3m4s", "7d", "3", "2"]
    explained = sandbox.kubectl("explain", "gpupolicy.spec.idle.grace").stdout
    assert "From the warning to the action" in explained
    api.delete(f"{POLICIES}/shown")


RECLAIM: dict[str, Any] = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUReclaim",
    "metadata": {"name": "pod-1"},
    "spec": {
        "action": "evict",
        "pod": {"name": "p", "uid": "1", "node": "node-a"},
        "owner": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "2"},
        "requester": "ann",
        "verdict": {"reason": "BelowThreshold", "sentence": "240 of 240 samples below 5 %"},
        "evidence": {"devicesExpected": 1, "signals": [{"name": "GPU_UTIL", "maximum": 0.0}]},
        "devices": 2,
        "idleSince": "2026-01-01T09:12:00Z",
        "warnedAt": "2026-01-01T11:12:00Z",
        "decidedAt": "2026-01-01T11:42:00Z",
        "policy": "default",
        "terms": {"action": "evict", "after": "2h"},
        "howToGetBack": "Create the pod again",
        "logsURL": "https://logs.example.com/p",
    },
}


def test_a_reclaim_is_written_once_and_completed(sandbox: Sandbox, namespace: str) -> None:
    """The record does not change; how far the action came does."""
    api = sandbox.api()
    path = f"/apis/gpu-tenure.io/v1alpha1/namespaces/{namespace}/gpureclaims"
    stored = api.create(f"{path}?fieldValidation=Strict", RECLAIM)
    assert stored["spec"] == RECLAIM["spec"]
    status = {"phase": "Accepted", "message": "evicted", "completedAt": "2026-01-01T11:42:01Z"}
    assert api.patch(f"{path}/pod-1/status", {"status": status})["status"] == status
    ended = {
        "endedAt": "2026-01-01T11:43:00Z",
        "containers": [{"name": "main", "exitCode": 143, "reason": "Error"}],
        "returnedAt": "2026-01-01T11:50:00Z",
        "activeAgainAt": "2026-01-01T12:10:00Z",
    }
    assert api.patch(f"{path}/pod-1/status", {"status": ended})["status"] == {**status, **ended}
    headers = {"Content-Type": "application/merge-patch+json"}
    reply = api.raw("PATCH", f"{path}/pod-1", {"spec": {"devices": 1}}, headers)
    assert reply.status == 422
    assert "is a record and may not be changed" in reply.json["message"]
    odd = {"status": {"phase": "Perhaps"}}
    assert api.raw("PATCH", f"{path}/pod-1/status", odd, headers).status == 422
    lines = sandbox.kubectl("get", "gpur", "-n", namespace).stdout.splitlines()
    assert lines[1].split()[:7] == ["pod-1", "evict", "p", "d", "ann", "2", "Accepted"]
