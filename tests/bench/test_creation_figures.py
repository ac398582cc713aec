"""What a webhook adds to a creation, from interleaved rounds."""

import pytest

from bench.creation_figures import Creation, Creations, compare_creations, summarize_creations
from bench.doors import MUTATED, NO_WEBHOOK, OTHER


def rounds(p50s: list[float], rates: list[int]) -> Creations:
    """One door's rounds of one second."""
    paced = [Creation(50, 1.0, p50, 2 * p50) for p50 in p50s]
    return Creations(paced, [Creation(rate, 1.0, 0.01, 0.02) for rate in rates])


# The second round is slow for all.
FOUND = {
    NO_WEBHOOK.name: rounds([0.004, 0.104, 0.004], [500, 50, 500]),
    MUTATED.name: rounds([0.005, 0.105, 0.005], [400, 40, 400]),
    OTHER.name: rounds([0.007, 0.107, 0.008], [200, 20, 200]),
}


def test_what_is_added_is_told_within_a_round() -> None:
    """A round in which everything took longer says the same as the others."""
    added = {one.door: one.added_p50_seconds for one in summarize_creations(FOUND)}
    assert added == {
        NO_WEBHOOK.name: 0.0,
        MUTATED.name: pytest.approx(0.001),
        OTHER.name: pytest.approx(0.003),
    }


def test_figures_are_medians_of_the_rounds() -> None:
    """Latency is that of the steady pace, the rate that of the clients in a loop."""
    ours = next(one for one in summarize_creations(FOUND) if one.door == MUTATED.name)
    assert (ours.p50_seconds, ours.p99_seconds, ours.creations_per_second) == (0.005, 0.01, 400.0)
    assert ours.rounds == 3


@pytest.mark.parametrize(
    ("ours", "quicker", "more"),
    [
        pytest.param(rounds([0.005] * 3, [400] * 3), True, True, id="less latency and more pods reach both"),
        pytest.param(rounds([0.007] * 3, [200] * 3), True, True, id="as good as the other is enough"),
        pytest.param(rounds([0.009] * 3, [400] * 3), False, True, id="a longer median misses the one"),
        pytest.param(rounds([0.005] * 3, [199] * 3), True, False, id="fewer pods a second miss the other"),
    ],
)
def test_targets(ours: Creations, quicker: bool, more: bool) -> None:
    """Each target is judged by itself."""
    other = rounds([0.007] * 3, [200] * 3)
    targets = compare_creations({MUTATED.name: ours, OTHER.name: other})
    assert (targets.is_quicker, targets.lets_more_through) == (quicker, more)


def test_a_missing_round_is_an_error() -> None:
    """Samples that cannot be paired are never compared."""
    with pytest.raises(ValueError, match="zip"):
        compare_creations(FOUND | {OTHER.name: rounds([0.007], [200])})
