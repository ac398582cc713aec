"""The rights that settings need, asked for at the start, and named where they are missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reaper import metrics
from reaper.rights import REVIEWS, Right, Rights, needed
from reaper.settings import ReaperSettings
from runtime.kube import ApiUnreachable, Response
from tests.reaper.acting.kube import FakeKube

ACTING = {"profile": "enforce", "dry_run": False}
LEASE = "gpu-tenure-reaper"


class Granting(FakeKube):
    """Grants everything but what is in `refused`; `broken` gives no answer."""

    def __init__(self, *refused: str) -> None:
        super().__init__({})
        self.refused = set(refused)
        self.broken = False

    async def request(self, method: str, path: str, **given: Any) -> Response:
        """Answers a review."""
        assert (method, path) == ("POST", REVIEWS)
        if self.broken:
            raise ApiUnreachable("away")
        asked = given["body"]["spec"]["resourceAttributes"]
        self.sent.append((method, path, asked, ""))
        allowed = f"{asked['verb']} {asked['resource']}" not in self.refused
        return Response(201, {}, msgspec.json.encode({"status": {"allowed": allowed}}))


def rights_of(**settings: Any) -> set[str]:
    """Gives the rights that settings need, as sentences name them."""
    found = needed(ReaperSettings(prometheus_url="http://prometheus:9090", **settings), LEASE)
    return {str(right) for right in found}


CASES = [
    pytest.param(ACTING, "patch deployments.apps", True, id="stopping needs to patch owners"),
    pytest.param(
        {**ACTING, "stop": False}, "patch deployments.apps", False, id="without stopping no owner is patched"
    ),
    pytest.param(ACTING, "create pods/eviction", True, id="evicting needs the Eviction API"),
    pytest.param(
        {"profile": "observe", "dry_run": False}, "create pods/eviction", False, id="observing evicts nobody"
    ),
    pytest.param(ACTING, "list poddisruptionbudgets.policy", True, id="what goes together is summed up"),
    pytest.param(
        {"profile": "observe"}, "list poddisruptionbudgets.policy", False, id="observing needs no budgets"
    ),
    pytest.param(ACTING, "patch pods", True, id="warning writes on pods"),
    pytest.param({"profile": "enforce"}, "patch pods", False, id="a dry run writes on no pod"),
    pytest.param({"profile": "enforce"}, "create pods/eviction", True, id="a dry run asks about evictions"),
    pytest.param(
        {"profile": "enforce"}, "update leases.coordination.k8s.io", False, id="a dry run takes no Lease"
    ),
    pytest.param(
        {**ACTING, "stop": False, "backfill_deadline": True}, "patch jobs.batch", True, id="deadlines of Jobs"
    ),
    pytest.param(ACTING, "list workloads.kueue.x-k8s.io", True, id="what Kueue manages"),
    pytest.param(
        ACTING, "get configmaps gpu-tenure-pause in gpu-tenure-system", True, id="the pause switch is read"
    ),
]


@pytest.mark.parametrize(("settings", "right", "wanted"), CASES)
def test_exactly_what_the_settings_need(settings: Any, right: str, wanted: bool) -> None:
    """No more: an administrator who takes a feature away takes its rights away."""
    assert (right in rights_of(**settings)) is wanted


def test_a_kind_of_the_table_needs_its_rights() -> None:
    """By its own group and plural."""
    row = {"apiGroup": "ray.io", "kind": "RayCluster", "resource": "rayclusters", "field": "/spec/suspend"}
    found = rights_of(**ACTING, stop_kinds=({**row, "value": True},))
    assert {"get rayclusters.ray.io", "patch rayclusters.ray.io"} <= found


async def test_missing_rights_are_named_until_they_are_there() -> None:
    """In the sentence that readiness shows, and in a metric."""
    kube = Granting("patch deployments", "list pods")
    wanted = [Right("apps", "deployments", "patch"), Right("", "pods", "list"), Right("", "pods", "get")]
    rights = Rights(kube, wanted)
    assert rights.lacking() is None
    assert await rights.ask()
    assert rights.lacking() == "the account may not patch deployments.apps, list pods"
    assert metrics.MISSING_RIGHTS._value.get() == 2
    kube.refused.clear()
    assert await rights.ask()
    assert rights.lacking() is None


async def test_no_answer_says_nothing() -> None:
    """What was known stays known."""
    kube = Granting("list pods")
    rights = Rights(kube, [Right("", "pods", "list")])
    await rights.ask()
    kube.broken = True
    assert not await rights.ask()
    assert rights.lacking() == "the account may not list pods"


async def test_it_asks_again_sooner_while_something_is_missing() -> None:
    """And goes on for ever."""
    kube, slept = Granting("list pods"), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        kube.refused.clear()
        if len(slept) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await Rights(kube, [Right("", "pods", "list")], sleep).watch()
    assert slept == [30, 600]


async def test_a_review_names_all_that_matters() -> None:
    """A right to one object of one namespace is asked for as such."""
    kube = Granting()
    await Rights(kube, [Right("coordination.k8s.io", "leases", "update", namespace="own", name="x")]).ask()
    expected = {"group": "coordination.k8s.io", "resource": "leases", "verb": "update"}
    assert [asked for _, _, asked, _ in kube.sent] == [{**expected, "namespace": "own", "name": "x"}]
