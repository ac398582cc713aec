"""GPUQuota on the API server: what its schema takes is what the parser takes, and the columns people see."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from policy.errors import InvalidError
from policy.gpuquota import parse_quota
from policy.ledger import Ask, Ledger, reserve
from policy.ledger_count import HeldPod, count_pods
from sandbox.cluster import Sandbox

if TYPE_CHECKING:
    from tests.manifests.conftest import Release

QUOTAS = "/apis/gpu-tenure.io/v1alpha1/gpuquotas"
GOOD: dict[str, dict[str, Any]] = {
    "devices alone": {"hard": {"devices": 8}},
    "a part of a device": {"hard": {"devices": "2.5"}},
    "nothing at all": {"hard": {"devices": 0}},
    "a resource": {"hard": {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": 14}},
    "memory with a suffix": {"hard": {"nvidia.com/gpumem": "400k"}},
    "every field": {
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "per": "requester",
        "together": ["unknown", "serviceAccounts"],
        "hard": {"devices": 1},
    },
}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no limit": ({}, "spec.hard"),
    "an empty limit": ({"hard": {}}, "spec.hard"),
    "a negative limit": ({"hard": {"devices": -1}}, "spec.hard[devices]"),
    "a word": ({"hard": {"devices": "many"}}, "spec.hard[devices]"),
    "a number without an end": ({"hard": {"devices": "1e999999999"}}, "spec.hard[devices]"),
    "a number close to nothing": ({"hard": {"devices": "1e-99"}}, "spec.hard[devices]"),
    "a domain with an empty part": ({"hard": {"a..b/c": 1}}, "spec.hard"),
    "half a resource": ({"hard": {"nvidia.com/gpu": "1500m"}}, "spec.hard"),
    "a resource without a domain": ({"hard": {"gpu": 1}}, "spec.hard"),
    "an odd subject": ({"hard": {"devices": 1}, "per": "pod"}, "spec.per"),
    "odd company": ({"hard": {"devices": 1}, "together": ["all"]}, "spec.together"),
    "an odd selector": (
        {"hard": {"devices": 1}, "namespaceSelector": {"matchLabels": {"a b": "c"}}},
        "spec.namespaceSelector.matchLabels",
    ),
    "a selector with a value that is none": (
        {
            "hard": {"devices": 1},
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b c"]}]},
        },
        "spec.namespaceSelector.matchExpressions",
    ),
    "a selector with an odd domain": (
        {
            "hard": {"devices": 1},
            "namespaceSelector": {"matchExpressions": [{"key": "a.-b/c", "operator": "Exists"}]},
        },
        "spec.namespaceSelector.matchExpressions",
    ),
}


def quota(spec: dict[str, Any], name: str = "tried") -> dict[str, Any]:
    """A GPUQuota."""
    body = {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUQuota", "metadata": {"name": name}}
    return {**body, "spec": spec}


@pytest.fixture(scope="module", autouse=True)
def quotas(release: Release) -> Iterator[None]:
    """The chart with quotas."""
    before = dict(release.values)
    release.set(profile="enforce", quota={"enabled": True})
    yield
    release.set(**before)


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_good_quotas_are_accepted(sandbox: Sandbox, spec: dict[str, Any]) -> None:
    """By the API server and by what reads them afterwards."""
    reply = sandbox.api().raw("POST", f"{QUOTAS}?dryRun=All&fieldValidation=Strict", quota(spec))
    assert reply.status == 201, reply.text
    assert parse_quota(reply.json).hard


@pytest.mark.parametrize(("spec", "path"), BAD.values(), ids=BAD)
def test_bad_quotas_are_refused(sandbox: Sandbox, spec: dict[str, Any], path: str) -> None:
    """The cause names the field, and the parser agrees."""
    reply = sandbox.api().raw("POST", f"{QUOTAS}?dryRun=All", quota(spec))
    assert reply.status == 422, reply.text
    assert any(cause["field"].startswith(path) for cause in reply.json["details"]["causes"]), reply.text
    with pytest.raises(InvalidError):
        parse_quota(quota(spec))


@pytest.mark.parametrize(
    "change",
    [{"per": "namespace"}, {"together": ["unknown"]}, {"together": None}],
    ids=["other subjects", "other company", "no company"],
)
def test_whom_limits_are_for_stays(sandbox: Sandbox, change: dict[str, Any]) -> None:
    """What is counted was counted by it; limits and namespaces may change."""
    api = sandbox.api()
    spec = {"per": "requester", "together": ["serviceAccounts"], "hard": {"devices": 1}}
    api.create(QUOTAS, quota(spec, "kept"))
    try:
        api.patch(f"{QUOTAS}/kept", {"spec": {"hard": {"devices": 2}}})
        headers = {"Content-Type": "application/merge-patch+json"}
        reply = api.raw("PATCH", f"{QUOTAS}/kept", {"spec": change}, headers)
        assert reply.status == 422, reply.text
        assert "create another quota" in reply.text
    finally:
        api.delete(f"{QUOTAS}/kept")


def test_columns_show_used_and_hard(sandbox: Sandbox) -> None:
    """The ledger's summary is a column."""
    api = sandbox.api()
    stored = api.create(QUOTAS, quota({"hard": {"devices": 8}}, "shown"))
    try:
        api.replace(f"{QUOTAS}/shown/status", {**stored, "status": {"summary": "7/8", "over": ["*"]}})
        header, row = sandbox.kubectl("get", "gpuquotas", "shown").stdout.splitlines()
        assert header.split() == ["NAME", "PER", "USED", "OVER", "AGE"]
        assert row.split()[:3] == ["shown", "quota", "7/8"]
    finally:
        api.delete(f"{QUOTAS}/shown")


def test_no_pod_makes_a_ledger_that_cannot_be_written(sandbox: Sandbox) -> None:
    """Owners and requesters of any length, counts beyond every integer: a ledger that sticks stops all."""
    api = sandbox.api()
    stored = api.create(QUOTAS, quota({"per": "requester", "hard": {"devices": 1}}, "hostile"))
    try:
        parsed, name = parse_quota(stored), "nvidia.com/gpu"
        pods = [
            HeldPod(
                f"u{index}", "a", f"p{index}", "r" * 200_000, {name: 2**63 - 1}, owner="K/" + "o" * 99_999
            )
            for index in range(2)
        ]
        ledger = count_pods(parsed, Ledger(), pods, ["a"], "1", lambda _: Fraction(1))
        ledger = reserve(parsed, ledger, Ask("u9", "a", "p9", "r" * 2000, {name: 2**64}), "")
        status = msgspec.json.decode(msgspec.json.encode(ledger))
        written = api.replace(f"{QUOTAS}/hostile/status", {**stored, "status": status})["status"]
        assert written == status
        assert list(ledger.used) == list(ledger.over) == ["r" * 1024]
    finally:
        api.delete(f"{QUOTAS}/hostile")
