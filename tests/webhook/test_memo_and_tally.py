"""The small machines that make a review cheap: remembered results and plain counters."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from webhook.memo import Memo
from webhook.tally import Spread, Tallies, Tally


class Thing:
    """Something that is compared by identity."""


def test_a_result_is_computed_once_per_key_and_object() -> None:
    """Equal keys and the very same object find the result; another object does not."""
    memo: Memo[int] = Memo(1000)
    computed: list[int] = []

    def compute() -> int:
        computed.append(len(computed))
        return computed[-1]

    first, second = Thing(), Thing()
    assert [memo.get("k", (first,), compute) for _ in range(3)] == [0, 0, 0]
    assert memo.get("k", (second,), compute) == 1
    assert memo.get("other", (first,), compute) == 2
    assert memo.get("k", (first,), compute) == 0


def test_an_object_is_kept_so_that_no_other_takes_its_place() -> None:
    """Identities are used again after an object dies: a remembered one must not die."""
    memo: Memo[int] = Memo(1000)
    for number in range(200):
        assert memo.get("k", (Thing(),), lambda number=number: number) == number


def test_it_never_holds_more_than_its_limit() -> None:
    """When full it begins anew."""
    memo: Memo[int] = Memo(3)
    for number in range(10):
        memo.get(number, (), lambda number=number: number)
        assert len(memo) <= 3


def test_counters_and_histograms_are_exposed_as_prometheus_reads_them() -> None:
    """Names, labels, cumulative buckets, sum and count."""
    registry = CollectorRegistry()
    tally, plain = Tally("x_events", "Events.", ["kind"]), Tally("x_plain", "Plain.")
    spread = Spread("x_seconds", "Seconds.", [0.1, 1.0], ["path"])
    registry.register(Tallies((tally, plain, spread)))
    tally.add("a")
    tally.add("a")
    tally.add('b"\n')
    for seconds in (0.05, 0.1, 0.5, 7.0):
        spread.add(seconds, "/p")
    text = generate_latest(registry).decode()
    assert "# TYPE x_events_total counter" in text
    assert 'x_events_total{kind="a"} 2.0' in text
    assert 'x_events_total{kind="b\\"\\n"} 1.0' in text
    assert "x_plain_total 0.0" in text
    for bound, count in (("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)):
        assert f'x_seconds_bucket{{le="{bound}",path="/p"}} {count}' in text
    assert 'x_seconds_count{path="/p"} 4.0' in text
    assert 'x_seconds_sum{path="/p"} 7.65' in text


def test_what_is_known_to_be_counted_is_shown_before_it_happens() -> None:
    """Prometheus cannot tell how much a series grew whose first sample is 1."""
    registry = CollectorRegistry()
    registry.register(Tallies([Tally("gpu_tenure_known", "x", ["outcome"], [("Lost",)])]))
    assert b'gpu_tenure_known_total{outcome="Lost"} 0.0' in generate_latest(registry)
