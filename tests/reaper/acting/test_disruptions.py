"""Budgets against the sum of the pods that go together: which protect whom, and what is not known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reaper.act import KubeActor, Outcome
from reaper.disruptions import parse_budget, short_of
from runtime.kube import ApiError, ApiUnreachable
from tests.reaper.acting.kube import Answer, FakeKube
from tests.reaper.acting.made import pod_of

PODS = [pod_of(f"rank-{number}", labels={"app": "train", "rank": str(number)}) for number in range(3)]
PATH = "/apis/policy/v1/namespaces/team-a/poddisruptionbudgets"
ALL: dict[str, Any] = {}


def budget(selector: Any, allowed: int | None = 1, name: str = "b", **metadata: Any) -> dict[str, Any]:
    """Gives a PodDisruptionBudget as the API server does."""
    spec = {"minAvailable": 1} | ({} if selector is None else {"selector": selector})
    status = {"observedGeneration": 2, "disruptionsAllowed": allowed, "currentHealthy": 3}
    return {"metadata": {"name": name, "generation": 2, **metadata}, "spec": spec, "status": status}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Gives a selector of one expression."""
    return {
        "matchExpressions": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
        ]
    }


CASES = [
    pytest.param([], None, id="no budget"),
    pytest.param([budget({"matchLabels": {"app": "web"}}, 0)], None, id="a budget of others"),
    pytest.param([budget({"matchLabels": {"app": "train"}}, 3)], None, id="as many as there are"),
    pytest.param([budget({"matchLabels": {"app": "train"}}, 2)], "3 of the pods", id="one too few"),
    pytest.param([budget(ALL, 2)], "3 of the pods", id="an empty selector protects all"),
    pytest.param([budget(None, 0)], None, id="no selector protects none"),
    pytest.param([budget(expression("rank", "In", "0", "2"), 1)], "2 of the pods", id="by an expression"),
    pytest.param([budget(expression("rank", "In", "0", "2"), 2)], None, id="as many as it selects"),
    pytest.param([budget(expression("rank", "NotIn", "0"), 1)], "2 of the pods", id="NotIn"),
    pytest.param([budget(expression("rank", "Exists"), 1)], "3 of the pods", id="Exists"),
    pytest.param([budget(expression("rank", "DoesNotExist"), 0)], None, id="DoesNotExist"),
    pytest.param([budget(ALL, 9), budget(ALL, 0, "other")], "budget other lets 0", id="the smaller of two"),
    pytest.param([budget(ALL, -1)], "lets -1", id="more are gone than may be"),
    pytest.param([budget(ALL, 9, generation=3)], "out of date", id="its status is of an older form"),
    pytest.param([budget(ALL, None)], "out of date", id="its status has no number"),
    pytest.param([budget(ALL) | {"status": None}], "out of date", id="it has no status yet"),
]


@pytest.mark.parametrize(("objects", "words"), CASES)
def test_the_sum_is_held_against_every_budget(objects: list[Any], words: str | None) -> None:
    """One pod alone would have been let go by most of these."""
    short = short_of([parse_budget(msgspec.json.encode(one)) for one in objects], PODS)
    assert (short is None) == (words is None)
    if short is not None and words is not None:
        assert words in short.sentence
        assert short.stale == (words == "out of date")


def listed(*items: Any, more: str = "") -> dict[str, Any]:
    """Gives one page of a list."""
    return {"metadata": {"resourceVersion": "7", "continue": more}, "items": list(items)}


ODD = {"metadata": {"name": "odd"}, "spec": {"selector": {"matchFields": []}}}
FORBIDDEN = ApiError(403, "Forbidden", "may not list poddisruptionbudgets")
ANSWERS = [
    pytest.param(listed(), None, id="no budget"),
    pytest.param(listed(budget(ALL, 3)), None, id="enough"),
    pytest.param(listed(budget(ALL, 1)), (Outcome.BUDGET, None), id="too few"),
    pytest.param(listed(budget(ALL, 3, generation=3)), (Outcome.BUDGET, 10.0), id="out of date"),
    pytest.param(listed(ODD), (Outcome.BUDGET, None), id="a budget of an unknown form"),
    pytest.param(FORBIDDEN, (Outcome.BUDGET, None), id="the right is missing"),
    pytest.param(ApiError(404, "NotFound", "x"), (Outcome.BUDGET, None), id="budgets are not served"),
    pytest.param(ApiError(429, "TooManyRequests", "x", (), 3), (Outcome.BUSY, 3), id="asked to slow down"),
    pytest.param(ApiError(503, "", "x"), (Outcome.UNKNOWN, None), id="503 says nothing"),
    pytest.param(ApiUnreachable("reset"), (Outcome.UNKNOWN, None), id="no answer"),
    pytest.param({"kind": "Nonsense"}, (Outcome.UNKNOWN, None), id="no list"),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
async def test_what_is_not_known_lets_nobody_go(answer: Answer, expected: Any) -> None:
    """Only budgets that were read, and are up to date, do."""
    refused = await KubeActor(FakeKube({("GET", PATH): answer})).refused_together(PODS)
    found = (refused[1].outcome, refused[1].retry_after) if refused else None
    assert found == expected


async def test_every_page_counts() -> None:
    """The budget that keeps a pod may be the last."""
    pages: dict[tuple[str, str], Answer] = {
        ("GET", PATH): listed(budget(ALL, 3), more="second"),
        ("GET", f"{PATH}?second"): listed(budget({"matchLabels": {"rank": "1"}}, 0, "last")),
    }
    refused = await KubeActor(FakeKube(pages)).refused_together(PODS)
    assert refused is not None
    assert refused[0].name == "rank-1"
    assert "budget last lets 0" in refused[1].message
