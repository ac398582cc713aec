"""The reviews that are sent: size, realism, variety."""

import msgspec
import pytest

from bench.pods import DURATION, UID, UNLIKE, USUAL
from bench.reviews import WORKLOADS, Workload, reviews
from policy.devices import devices_of
from policy.durations import parse_duration
from webhook.review import read_request

CASES = [pytest.param(workload, id=f"reviews of {workload.name}") for workload in WORKLOADS]


def few(variants: int) -> Workload:
    """The first workload with fewer variants."""
    return msgspec.structs.replace(WORKLOADS[0], variants=variants)


@pytest.mark.parametrize("workload", CASES)
def test_bodies_have_the_size_that_they_claim(workload: Workload) -> None:
    """Each is at most that long, and not shorter by more than its last entry of environment."""
    lengths = [len(review.body) for review in reviews(workload)]
    assert max(lengths) <= workload.size_bytes
    assert min(lengths) > workload.size_bytes - 400


@pytest.mark.parametrize("workload", CASES)
def test_every_review_is_about_a_gpu_pod_that_our_webhook_reads(workload: Workload) -> None:
    """The webhook's own reader finds two devices in each pod, or in the pods of each Job."""
    for review in reviews(workload):
        request = read_request(review.body)
        assert request.object is not None
        template = request.object.job().spec.template
        assert (template is not None) is workload.jobs
        spec = template.spec if template is not None else request.object.pod().spec
        assert spec is not None
        assert devices_of(spec).counts == {"nvidia.com/gpu": 2}


def test_they_are_always_the_same() -> None:
    """Two runs measure the same bytes."""
    assert reviews(WORKLOADS[0]) == reviews(WORKLOADS[0])


def test_kinds_and_variants_differ() -> None:
    """No two reviews are alike, and each kind of pod is there."""
    found = reviews(few(3))
    assert len({review.body for review in found}) == len(found) == 3 * len(USUAL)


def test_every_pod_carries_the_placeholder_beyond_the_uid() -> None:
    """So that a server which remembers bodies or names gains nothing."""
    for review in reviews(few(1)):
        metadata = msgspec.json.decode(review.body)["request"]["object"]["metadata"]
        del metadata["managedFields"]
        assert UID in msgspec.json.encode(metadata).decode()


def test_pods_that_are_unlike_ask_for_a_duration_that_is_renewed() -> None:
    """The placeholder is a duration within bounds itself, so that the gate may send it as it is."""
    labels = [kind.labels or {} for kind in UNLIKE]
    assert [parse_duration(one["gpu-tenure.io/idle-after"]).text for one in labels] == [DURATION]
    bodies = [review.body for workload in WORKLOADS if not workload.usual for review in reviews(workload)]
    assert bodies
    assert all(body.count(DURATION.encode()) == 1 for body in bodies)


def test_no_usual_pod_holds_the_placeholder_of_the_duration() -> None:
    """Nothing is replaced by accident."""
    bodies = [review.body for workload in WORKLOADS if workload.usual for review in reviews(workload)]
    assert not any(DURATION.encode() in body for body in bodies)
