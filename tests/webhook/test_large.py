"""Objects as large as the API server takes them: nobody else waits, and memory stays within bounds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.webhook.test_app import App
from webhook import aside, patch
from webhook.app import LARGE_BYTES, MUTATE, VALIDATE
from webhook.aside import Aside
from webhook.memo import Memo
from webhook.own import own_pod
from webhook.patch import REMEMBERED_KEYS, make_patch
from webhook.reception import FailureError

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

Object = dict[str, Any]
MakePod = Callable[..., Object]


def ray_cluster(template: Object, groups: int) -> Object:
    """A RayCluster of many worker groups."""
    template = {"metadata": {"annotations": {"note": "x" * 200}}, "spec": template["spec"]}
    workers = [{"groupName": f"g{index}", "replicas": 1, "template": template} for index in range(groups)]
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "w"}, "spec": spec}


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
async def test_nobody_waits_for_a_workload_of_hundreds_of_templates(
    enforced: Door, pod: MakePod, path: str
) -> None:
    """It is decided beside the others, and gets what a small one gets."""
    admission = App(enforced).admission
    large = enforced.review(ray_cluster(pod(), 400))
    assert len(large) >= LARGE_BYTES
    coming = admission.routes()[path](large)
    assert not isinstance(coming, bytes)
    late = asyncio.ensure_future(coming)
    await asyncio.sleep(0)
    assert isinstance(admission.routes()[MUTATE](enforced.review(pod())), bytes)
    assert not late.done()
    answer = await late
    assert b'"allowed":true' in answer
    assert (b'"patch"' in answer) is (path == MUTATE)


async def test_a_large_pod_is_decided_like_a_small_one(enforced: Door, pod: MakePod) -> None:
    """On both paths."""
    admission = App(enforced).admission
    made = pod(metadata={"annotations": {"note": "x" * LARGE_BYTES}})
    for path in (MUTATE, VALIDATE):
        coming = admission.routes()[path](enforced.review(made))
        assert not isinstance(coming, bytes)
        assert b'"warnings"' in await coming


async def test_one_after_the_other_and_not_for_longer_than_anybody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread cannot be ended: it keeps its turn, also when nobody wants its result any more."""
    monkeypatch.setattr(aside, "PATIENCE_SECONDS", 0.01)
    beside, go = Aside(), threading.Event()
    first = asyncio.ensure_future(beside.run(go.wait))
    await asyncio.sleep(0)
    with pytest.raises(FailureError, match="too many"):
        await beside.run(lambda: 1)
    first.cancel()
    with pytest.raises(FailureError, match="too many"):
        await beside.run(lambda: 1)
    go.set()
    monkeypatch.setattr(aside, "PATIENCE_SECONDS", 10)
    assert await beside.run(lambda: 2) == 2


async def test_what_fails_beside_fails_for_its_sender_alone() -> None:
    """The next one has its turn."""
    beside = Aside()

    def broken() -> int:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        await beside.run(broken)
    assert await beside.run(lambda: 2) == 2


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [{"name": f"c{index}"} for index in range(500)]}, id="many containers"),
        pytest.param({"containers": [{"name": "c" * 20_000}]}, id="a name without end"),
        pytest.param({"overhead": {f"example.com/x{index}": 1 for index in range(500)}}, id="an overhead"),
        pytest.param({"resources": {"limits": {"nvidia.com/gpu": "1" * 20_000}}}, id="an amount"),
        pytest.param(
            {"initContainers": [{"name": "c", "resources": {"requests": {"x" * 20_000: 1}}}]}, id="a resource"
        ),
    ],
)
def test_large_pods_are_not_remembered_like_small_ones(enforced: Door, pod: MakePod, spec: Object) -> None:
    """A hundred of them would be hundreds of megabytes."""
    enforced.memory.devices = Memo(10_000)
    made = pod()
    made["spec"] |= {**spec, "containers": [*made["spec"]["containers"], *spec.get("containers", [])]}
    enforced.decide(made)
    assert len(enforced.memory.devices) == 0
    enforced.decide(pod())
    assert len(enforced.memory.devices) == 1


def test_what_is_large_counts_as_much_as_it_is() -> None:
    """Ten pods as large as the API server takes them must not be remembered like ten small ones."""
    memo: Memo[int] = Memo(10)
    for number in range(10):
        memo.get(number, (), lambda number=number: number, lambda: 4)
        assert len(memo) <= 2
    assert memo.get("whole", (), lambda: 1, lambda: 11) == 1
    assert len(memo) == 2


def test_large_annotations_count_as_much_as_they_are(enforced: Door, pod: MakePod) -> None:
    """Ours are read whatever they hold."""
    made = pod(metadata={"annotations": {"gpu-tenure.io/asked": "x" * 100_000}})
    small, large = (own_pod(enforced.request(one).object.pod()) for one in (pod(), made))  # type: ignore[union-attr]
    assert (small.size(), large.size() > 90) == (1, True)


def test_patches_of_many_places_are_proven_each_time() -> None:
    """No other object has the same places, and a proof is as large as its object."""
    before = patch._known_steps.cache_info().currsize
    old: Object = {"spec": {f"k{index}": {} for index in range(REMEMBERED_KEYS)}}
    new = {"spec": {f"k{index}": {"a": index} for index in range(REMEMBERED_KEYS)}}
    assert len(make_patch(old, new)) == REMEMBERED_KEYS
    assert patch._known_steps.cache_info().currsize == before
