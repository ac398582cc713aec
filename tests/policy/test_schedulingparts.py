"""Scheduling defaults of a policy are checked as strictly as the API server checks a pod's fields."""

from __future__ import annotations

from typing import Any

import pytest

from policy.errors import InvalidError
from policy.gpupolicy import parse_policy

REQUIRED, PREFERRED = (
    f"{which}DuringSchedulingIgnoredDuringExecution" for which in ("required", "preferred")
)
NODES = {"key": "gpu", "operator": "In", "values": ["a100"]}


def required(*expressions: dict[str, Any], part: str = "matchExpressions") -> dict[str, Any]:
    """Scheduling defaults that require one term."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{part: list(expressions)}]}}}


@pytest.mark.parametrize(
    "scheduling",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "a/b", "value": "c", "effect": "NoExecute", "tolerationSeconds": 0}]},
        {"tolerations": [{"key": "a", "operator": "Equal", "value": ""}]},
        required(NODES, {"key": "n", "operator": "Gt", "values": ["3"]}, {"key": "e", "operator": "Exists"}),
        required({"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}, part="matchFields"),
        {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [NODES]}}]}},
    ],
    ids=["all taints", "for a while", "an empty value", "numbers", "a node by name", "a preference"],
)
def test_what_the_api_server_takes(scheduling: dict[str, Any]) -> None:
    """Is kept as it is written."""
    policy = parse_policy({"metadata": {"name": "p"}, "spec": {"scheduling": scheduling}})
    kept = policy.scheduling
    assert list(kept.tolerations) == scheduling.get("tolerations", [])
    assert kept.node_affinity == scheduling.get("nodeAffinity")
    assert not kept.is_empty


@pytest.mark.parametrize(
    ("scheduling", "path"),
    [
        pytest.param({"priorityClassName": "GPU"}, "priorityClassName", id="a class that cannot exist"),
        pytest.param({"tolerations": [{}]}, "tolerations[0]", id="no key"),
        pytest.param({"tolerations": [{"key": "a b"}]}, "tolerations[0].key", id="a key with a space"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "tolerations[0].value",
            id="a value beside Exists",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
            "tolerations[0].operator",
            id="an operator that not every cluster knows",
        ),
        pytest.param({"tolerations": [{"key": "a", "value": "b c"}]}, "tolerations[0].value", id="a value"),
        pytest.param(
            {"tolerations": [{"key": "a", "effect": "NoWay"}]}, "tolerations[0].effect", id="an effect"
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
            "tolerations[0].tolerationSeconds",
            id="seconds without the effect",
        ),
        pytest.param(
            {"tolerations": [{"key": 5, "operator": "Exists"}]}, "tolerations[0].key", id="a number for a key"
        ),
        pytest.param({"nodeAffinity": {"required": {}}}, "nodeAffinity.required", id="an unknown field"),
        pytest.param({"nodeAffinity": {REQUIRED: {}}}, f"nodeAffinity.{REQUIRED}", id="no terms"),
        pytest.param(
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}},
            f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]",
            id="a term that is never true",
        ),
        pytest.param(
            {"nodeAffinity": {PREFERRED: [{"weight": 1}]}}, f"nodeAffinity.{PREFERRED}[0]", id="half"
        ),
        pytest.param(
            {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [NODES]}}]}},
            f"nodeAffinity.{PREFERRED}[0].weight",
            id="a weight of nothing",
        ),
    ],
)
def test_what_would_refuse_every_pod(scheduling: dict[str, Any], path: str) -> None:
    """Is an error of the policy, at its path."""
    with pytest.raises(InvalidError) as raised:
        parse_policy({"metadata": {"name": "p"}, "spec": {"scheduling": scheduling}})
    assert [error.path for error in raised.value.errors] == [f"spec.scheduling.{path}"]


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ({"key": "gpu", "operator": "Near", "values": ["a"]}, "matchExpressions"),
        ({"key": "gpu", "values": ["a"]}, "matchExpressions"),
        ({"key": "g p", "operator": "Exists"}, "matchExpressions"),
        ({"key": "gpu", "operator": "In", "values": []}, "matchExpressions"),
        ({"key": "gpu", "operator": "In", "values": ["a b"]}, "matchExpressions"),
        ({"key": "gpu", "operator": "Exists", "values": ["a"]}, "matchExpressions"),
        ({"key": "gpu", "operator": "Gt", "values": ["1", "2"]}, "matchExpressions"),
        ({"key": "gpu", "operator": "Gt", "values": ["one"]}, "matchExpressions"),
        ({"key": "spec.name", "operator": "In", "values": ["a"]}, "matchFields"),
        ({"key": "metadata.name", "operator": "Exists"}, "matchFields"),
        ({"key": "metadata.name", "operator": "In", "values": ["a", "b"]}, "matchFields"),
    ],
)
def test_expressions_that_the_api_server_refuses(expression: dict[str, Any], part: str) -> None:
    """Keys, operators, and how many values each takes."""
    with pytest.raises(InvalidError):
        parse_policy({"metadata": {"name": "p"}, "spec": {"scheduling": required(expression, part=part)}})
