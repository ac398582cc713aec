"""One Prometheus that answers for several clusters: pods of one name must not be taken for each other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pytest

from policy.verdicts import Reason
from reaper.criteria import JudgeSettings
from reaper.observation import observe
from reaper.prometheus import Sample
from tests.reaper.judging.past import HOUR, NOW

UTIL = "DCGM_FI_DEV_GPU_UTIL"


class Discovering:
    """A Prometheus in which one metric exists, with these labels; all else is empty."""

    def __init__(self, *labels: Mapping[str, str]) -> None:
        self._labels = labels

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """Answers the discovery."""
        assert at == NOW
        if not expression.startswith("count by (__name__"):
            return []
        return [Sample({"__name__": UTIL, "job": "dcgm", **one}, 1.0) for one in self._labels]


@pytest.mark.parametrize("label", ["cluster", "k8s_cluster_name"])
async def test_nothing_is_judged_while_series_come_from_several_clusters(label: str) -> None:
    """An idle pod of another cluster would speak for a busy one that has no metrics."""
    observed = await observe(Discovering({label: "a"}, {label: "b"}), [HOUR], NOW, JudgeSettings())
    assert not observed.complete
    assert observed.problem is Reason.SEVERAL_CLUSTERS
    (sentence,) = observed.problems
    assert sentence == f"series of 2 clusters (a, b): name this one in matchers by its label {label}"


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param([{}], id="no series names a cluster"),
        pytest.param([{"cluster": "a"}, {"cluster": "a"}], id="all series name one"),
        pytest.param([{"cluster": "a"}, {}], id="only some series name it"),
        pytest.param([{"cluster": "a"}, {"cluster_name": "b"}], id="two labels name one each"),
    ],
)
async def test_one_cluster_is_judged(labels: list[dict[str, str]]) -> None:
    """Whatever its name is."""
    observed = await observe(Discovering(*labels), [HOUR], NOW, JudgeSettings())
    assert observed.complete
