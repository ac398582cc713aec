"""The reviews that are sent: size, realism, variety."""

import msgspec
import pytest

from bench.pods import KINDS, UID
from bench.reviews import SIZES, reviews
from policy.devices import devices_of
from webhook.review import read_request

SIZE_IDS = [pytest.param(size, id=f"reviews of {name}") for name, size in SIZES.items()]


@pytest.mark.parametrize("size", SIZE_IDS)
def test_bodies_have_the_size_that_they_claim(size: int) -> None:
    """Each is at most that long, and not shorter by more than its last entry of environment."""
    lengths = [len(review.body) for review in reviews(size)]
    assert max(lengths) <= size
    assert min(lengths) > size - 400


@pytest.mark.parametrize("size", SIZE_IDS)
def test_every_review_is_about_a_gpu_pod_that_our_webhook_reads(size: int) -> None:
    """The webhook's own reader finds two devices in each."""
    for review in reviews(size):
        request = read_request(review.body)
        assert request.object is not None
        assert devices_of(request.object.pod().spec).counts == {"nvidia.com/gpu": 2}


def test_they_are_always_the_same() -> None:
    """Two runs measure the same bytes."""
    assert reviews(10_000) == reviews(10_000)


def test_kinds_and_variants_differ() -> None:
    """No two reviews are alike, and each kind of pod is there."""
    found = reviews(10_000, variants=3)
    assert len({review.body for review in found}) == len(found) == 3 * len(KINDS)


def test_every_pod_carries_the_placeholder_beyond_the_uid() -> None:
    """So that a server which remembers bodies or names gains nothing."""
    for review in reviews(10_000, variants=1):
        metadata = msgspec.json.decode(review.body)["request"]["object"]["metadata"]
        del metadata["managedFields"]
        assert UID in msgspec.json.encode(metadata).decode()
