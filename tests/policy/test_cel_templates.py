"""Where pods inherit annotations, as CEL: every kind has a branch, and kinds of one shape share it."""

from __future__ import annotations

import pytest

from policy.cel_templates import OBJECT, inherited
from policy.workloads import JOB, WORKLOADS, Template, WorkloadKind

BRANCHES = inherited((JOB, *WORKLOADS)).split(" :\n")


@pytest.mark.parametrize("kind", [JOB, *WORKLOADS], ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_every_kind_has_one_branch(kind: WorkloadKind) -> None:
    """It names every field on the way to what pods inherit."""
    (branch,) = [branch for branch in BRANCHES if f'"{kind.group}/{kind.resource}"' in branch]
    places = [kind.mark] if kind.mark else [f"{template.path}.metadata" for template in kind.templates]
    for place in (*places, *kind.also):
        parts = [part for part in place.split(".") if part not in {"*", "metadata"}]
        assert all(f".?{part}" in branch for part in parts), place


def test_kinds_of_one_shape_share_a_branch() -> None:
    """Else the expression would grow with every kind."""
    assert '"batch/jobs", "apps/deployments"' in BRANCHES[0]


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        pytest.param(
            WorkloadKind("g", "K", "ks", ("g", "K"), (Template("spec.template"),)),
            "[dyn(dyn(OBJECT).?spec.?template.orValue({}))]",
            id="one template",
        ),
        pytest.param(
            WorkloadKind("g", "K", "ks", ("g", "K"), (Template("spec.tasks.*.template"),)),
            "dyn(OBJECT).?spec.?tasks.orValue([]).map(item, dyn(item.?template.orValue({})))",
            id="a list",
        ),
        pytest.param(
            WorkloadKind("g", "K", "ks", ("g", "K"), (Template("spec.aReplicaSpecs.*.template"),)),
            "dyn(OBJECT).?spec.?aReplicaSpecs.orValue({}).map(item,"
            " dyn(dyn(OBJECT).?spec.?aReplicaSpecs[?item].?template.orValue({})))",
            id="a mapping",
        ),
        pytest.param(
            WorkloadKind("g", "K", "ks", ("g", "K"), mark="metadata"), "[dyn(OBJECT)]", id="its own metadata"
        ),
    ],
)
def test_shapes(kind: WorkloadKind, expression: str) -> None:
    """Each shape of a path is a CEL expression of its own; what is of no known kind carries its own."""
    key = '(request.resource.group + "/" + request.resource.resource)'
    assert inherited([kind]) == f'{key} in ["g/ks"] ? {expression} :\n[dyn({OBJECT})]'
