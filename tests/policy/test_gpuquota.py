"""Which GPUQuota objects are valid, and whose limit a pod counts against."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.errors import InvalidError
from policy.gpuquota import GPUQuota, Per, Together, parse_quota, subject_of


def quota(**spec: Any) -> dict[str, Any]:
    """A GPUQuota as the API server gives it."""
    return {
        "apiVersion": "gpu-tenure.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "team-a", "uid": "u1", "generation": 3},
        "spec": spec,
    }


def test_reads_every_field() -> None:
    """A full specification becomes a value with exact limits."""
    selector = {"matchLabels": {"team": "a"}}
    hard = {"devices": "2.5", "nvidia.com/gpu": 8, "nvidia.com/gpumem": "40k"}
    read = parse_quota(quota(namespaceSelector=selector, per="requester", together=["unknown"], hard=hard))
    assert (read.name, read.uid, read.generation, read.per) == ("team-a", "u1", 3, Per.REQUESTER)
    assert read.namespace_selector is not None
    assert read.namespace_selector.match_labels == {"team": "a"}
    assert read.together == {Together.UNKNOWN}
    assert read.hard == {
        "devices": Fraction(5, 2),
        "nvidia.com/gpu": Fraction(8),
        "nvidia.com/gpumem": Fraction(40000),
    }


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({}, "spec.hard: must name at least one limit", id="no limit at all"),
        pytest.param({"hard": {"devices": -1}}, "spec.hard[devices]: must be", id="a negative limit"),
        pytest.param({"hard": {"devices": None}}, "spec.hard[devices]: must be", id="a limit of null"),
        pytest.param({"hard": {"gpus": 1}}, "spec.hard[gpus]: must be devices or", id="no resource"),
        pytest.param(
            {"hard": {"nvidia.com/gpu": "1500m"}},
            "spec.hard[nvidia.com/gpu]: must be a whole",
            id="half a unit",
        ),
        pytest.param({"hard": {"devices": 1}, "per": "pod"}, "spec.per: must be one of quota", id="odd per"),
        pytest.param({"hard": {"devices": 1}, "pre": "quota"}, "did you mean per?", id="a misspelt field"),
        pytest.param({"hard": {"devices": 1}, "together": ["all"]}, "spec.together[0]", id="odd together"),
        pytest.param({"hard": {"devices": "1e99999"}}, "spec.hard[devices]: must", id="a huge number"),
    ],
)
def test_says_what_is_wrong_and_where(spec: dict[str, Any], error: str) -> None:
    """Every error names its path."""
    with pytest.raises(InvalidError) as raised:
        parse_quota(quota(**spec))
    assert any(error in str(one) for one in raised.value.errors)


SERVICE_ACCOUNT = "system:serviceaccount:jobs:runner"


@pytest.mark.parametrize(
    ("per", "together", "requester", "subject"),
    [
        pytest.param(Per.QUOTA, (), "dev-a", "*", id="all namespaces share one limit"),
        pytest.param(Per.NAMESPACE, (), "dev-a", "team-a", id="each namespace has its own"),
        pytest.param(Per.REQUESTER, (), "dev-a", "dev-a", id="each requester has its own"),
        pytest.param(Per.REQUESTER, (), None, "unknown:team-a", id="unknown requesters count per namespace"),
        pytest.param(Per.REQUESTER, (), "unknown", "unknown:team-a", id="unknown as a word is the same"),
        pytest.param(Per.REQUESTER, (), SERVICE_ACCOUNT, SERVICE_ACCOUNT, id="accounts stay apart"),
        pytest.param(Per.REQUESTER, (Together.UNKNOWN,), None, "unknown", id="unless told to for unknown"),
        pytest.param(
            Per.REQUESTER,
            (Together.SERVICE_ACCOUNTS,),
            SERVICE_ACCOUNT,
            "service accounts",
            id="or accounts",
        ),
    ],
)
def test_subjects(per: Per, together: tuple[Together, ...], requester: str | None, subject: str) -> None:
    """The subject depends on `per`, `together` and who asked."""
    made = GPUQuota("q", per=per, together=frozenset(together))
    assert subject_of(made, "team-a", requester) == subject


EXAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "examples" / "quotas").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_the_examples_are_quotas(path: Path) -> None:
    """Each is read without an error."""
    assert parse_quota(yaml.safe_load(path.read_text())).hard


def test_there_are_examples() -> None:
    """One for each whom limits can be for."""
    found = {parse_quota(yaml.safe_load(path.read_text())).per for path in EXAMPLES}
    assert found == set(Per)
