from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import Backoff


def test_pauses_double_up_to_the_limit_and_start_again_after_progress() -> None:
    """The pause grows with failures in a row only."""
    backoff = Backoff(first=1, limit=10, draw=lambda: 1.0)
    assert [backoff.next_pause() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert backoff.next_pause() == 1


@given(failures=st.integers(0, 5000), drawn=st.floats(0, 1, exclude_max=True))
def test_a_pause_lies_in_the_upper_half_of_its_ceiling(failures: int, drawn: float) -> None:
    """Jitter never makes a pause vanish, and many failures never overflow."""
    backoff = Backoff(first=0.5, limit=60, draw=lambda: drawn)
    backoff.failures = failures
    assert 0.25 <= backoff.next_pause() <= 60
