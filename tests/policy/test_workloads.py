"""The table of workloads, and how values are found in them."""

from __future__ import annotations

from typing import Any

import pytest

from policy.classes import CONTROLLER_CLASSES
from policy.workloads import WORKLOADS, WorkloadKind, find, first, pods_at, workload_kind


@pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_every_row_is_whole(kind: WorkloadKind) -> None:
    """It has templates, or containers and a place to mark; counts lie beside their template."""
    assert workload_kind(kind.group, kind.kind) is kind
    assert bool(kind.templates) != bool(kind.containers and kind.mark)
    for template in kind.templates:
        for path in (path for factor in template.counts for path in factor):
            shared = path.split(".*")[0]
            assert template.path.count("*") >= path.count("*")
            assert "*" not in path or template.path.startswith(shared)
    assert kind.run_once or kind.deadline is None


def test_kinds_that_end_by_themselves_have_batch_pods() -> None:
    """A deadline belongs to batch alone."""
    classes = {kind.kind: CONTROLLER_CLASSES.get(kind.controller) for kind in WORKLOADS if kind.run_once}
    assert set(classes.values()) == {"batch"}


def test_a_kind_that_nobody_knows_is_none() -> None:
    """Nor is a Job, whose path is its own."""
    assert workload_kind("example.com", "Thing") is None
    assert workload_kind("batch", "Job") is None


TREE: dict[str, Any] = {"a": [{"b": 1}, {"b": None}, {}, {"b": 3}], "m": {"x": {"b": 5}, "y": 6}, "n": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("a.*.b", [("a.0.b", 1), ("a.3.b", 3)], id="items of a list"),
        pytest.param("m.*.b", [("m.x.b", 5)], id="items of a mapping"),
        pytest.param("a.3.b", [("a.3.b", 3)], id="one item"),
        pytest.param("n.*", [], id="behind null"),
        pytest.param("a.9.b", [], id="behind the end"),
        pytest.param("m.y.b", [], id="behind a number"),
    ],
)
def test_finding(path: str, found: list[tuple[str, Any]]) -> None:
    """Absent and null are nothing."""
    assert [(".".join(where), value) for where, value in find(TREE, path)] == found
    assert first(TREE, path) == (found[0][1] if found else None)


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        pytest.param("Deployment", {"template": {}, "replicas": 3}, 3, id="replicas"),
        pytest.param("Deployment", {"template": {}}, 1, id="one by default"),
        pytest.param("Deployment", {"template": {}, "replicas": -1}, 0, id="never less than none"),
        pytest.param("Deployment", {"template": {}, "replicas": "3"}, 1, id="no number"),
        pytest.param(
            "JobSet",
            {
                "replicatedJobs": [
                    {
                        "replicas": 2,
                        "template": {"spec": {"parallelism": 4, "completions": 3, "template": {}}},
                    }
                ]
            },
            6,
            id="jobs of a set, of which fewer are to complete",
        ),
        pytest.param(
            "RayCluster",
            {"workerGroupSpecs": [{"replicas": 2, "numOfHosts": 4, "template": {}}]},
            8,
            id="hosts of workers",
        ),
        pytest.param(
            "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 7, "template": {}}}}, 7, id="roles"
        ),
    ],
)
def test_how_many_pods_a_template_makes(kind: str, spec: dict[str, Any], pods: int) -> None:
    """At least so many at once."""
    row = next(row for row in WORKLOADS if row.kind == kind)
    tree = {"spec": spec}
    found = [
        pods_at(tree, template, path) for template in row.templates for path, _ in find(tree, template.path)
    ]
    assert found == [pods]
