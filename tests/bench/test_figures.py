"""Medians, ratios and targets from samples."""

import pytest

from bench.figures import CONTROLLER_RUNTIME, OURS, PLAIN, TARGETS, Sample, compare, summarize


def sample(reviews: int = 1000, cpu: float = 1.0, load: float = 0.5, p99: float = 0.002) -> Sample:
    """One round of two seconds."""
    return Sample(reviews, 2.0, cpu, load, 0.001, p99)


def test_medians_ignore_the_round_that_went_wrong() -> None:
    """One slow round of three changes nothing but the share of the load generator, which is the worst one."""
    found = summarize(OURS, "10 kB", [sample(), sample(10, 2.0, 1.9, 0.5), sample()], 70_000_000)
    assert (found.reviews_per_second, found.cpu_seconds_per_review) == (500.0, 0.001)
    assert (found.p50_seconds, found.p99_seconds) == (0.001, 0.002)
    assert (found.load_share, found.rounds) == (0.95, 3)


def test_ratios_are_taken_within_a_round() -> None:
    """A round in which the machine was half as fast for both says the same as the others."""
    ours = [sample(1000), sample(500), sample(1000)]
    theirs = [sample(100), sample(50), sample(100)]
    ratio = compare(CONTROLLER_RUNTIME, "10 kB", ours, theirs, 10.0)
    assert ratio.per_core == pytest.approx(10.0)
    assert ratio.per_second == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("comparator", "reviews", "reached"),
    [
        pytest.param(CONTROLLER_RUNTIME, 100, True, id="ten times controller-runtime is the target"),
        pytest.param(CONTROLLER_RUNTIME, 101, False, id="a little less than ten times misses it"),
        pytest.param(PLAIN, 666, True, id="one and a half times plain Go is the target"),
        pytest.param(PLAIN, 667, False, id="a little less than that misses it"),
    ],
)
def test_targets(comparator: str, reviews: int, reached: bool) -> None:
    """The target is judged by what a core can do."""
    assert (
        compare(comparator, "30 kB", [sample(1000)], [sample(reviews)], TARGETS[comparator]).reached
        is reached
    )


def test_a_missing_round_is_an_error() -> None:
    """Samples that cannot be paired are never compared."""
    with pytest.raises(ValueError, match="zip"):
        compare(PLAIN, "10 kB", [sample()], [sample(), sample()], None)
