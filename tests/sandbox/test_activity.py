"""What simulated devices do over time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.activity import (
    BUSY_PERCENT,
    ActivityError,
    Profile,
    busy_seconds,
    is_busy,
    parse_activity,
    profile_of,
    sample,
)

NOW = 1_800_000_000.0
TIMES = st.floats(NOW - 1e5, NOW + 1e5, allow_nan=False)
PROFILES = st.one_of(
    st.sampled_from(
        [Profile(kind) for kind in ("busy", "idle", "prof-stuck", "hami-false-zero", "frozen", "garbage")]
    ),
    st.builds(Profile, st.just("duty"), st.integers(1, 900).map(float), st.integers(1, 900).map(float)),
    st.builds(Profile, st.sampled_from(["burst", "garbage"]), st.integers(5, 900).map(float)),
    st.builds(Profile, st.sampled_from(["idle-from", "busy-from"]), TIMES),
    st.just(Profile("xid", 48.0)),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("busy", (Profile("busy"),), id="one word is for all devices"),
        pytest.param("busy, idle", (Profile("busy"), Profile("idle")), id="a list is by device"),
        pytest.param("duty:300/60", (Profile("duty", 300, 60),), id="a duty cycle has seconds on and off"),
        pytest.param("idle-from:now", (Profile("idle-from", NOW),), id="now is when it was first seen"),
        pytest.param("busy-from:2027-01-15T08:00:00Z", (Profile("busy-from", NOW),), id="a time is RFC 3339"),
        pytest.param("garbage:600", (Profile("garbage", 600),), id="garbage can come now and then"),
        pytest.param("xid:48", (Profile("xid", 48),), id="a device can have an error"),
        pytest.param("xid:48/300", (Profile("xid", 48, 300),), id="and have it again and again"),
    ],
)
def test_an_activity_is_read(text: str, expected: tuple[Profile, ...]) -> None:
    """Every form of the annotation is understood."""
    assert parse_activity(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lazy",
        "duty:0/5",
        "duty:5",
        "burst",
        "burst:-1",
        "idle-from",
        "idle-from:noon",
        "busy,,idle",
        "xid:",
    ],
)
def test_an_unreadable_activity_is_refused_by_name(text: str) -> None:
    """A typing mistake in a test must not silently mean something else."""
    with pytest.raises(ActivityError, match="not an activity"):
        parse_activity(text, NOW)


def test_the_last_profile_repeats() -> None:
    """`busy,idle` on three devices is one busy and two idle."""
    profiles = parse_activity("busy,idle", NOW)
    assert [profile_of(profiles, n).kind for n in range(3)] == ["busy", "idle", "idle"]


@given(PROFILES, TIMES, st.sampled_from([1.0, 5.0, 15.0]))
def test_a_sample_is_a_function_of_its_arguments(profile: Profile, at: float, interval: float) -> None:
    """Exporter and history can never disagree."""
    assert sample(profile, None, NOW - 1e6, at, interval) == sample(profile, None, NOW - 1e6, at, interval)


@given(PROFILES, TIMES, st.floats(0, 3600), st.sampled_from([1.0, 5.0]))
def test_the_energy_counter_never_falls(profile: Profile, at: float, later: float, interval: float) -> None:
    """A counter that falls would look like a restart of the exporter."""
    before = sample(profile, None, NOW - 1e6, at, interval)
    after = sample(profile, None, NOW - 1e6, at + later, interval)
    assert before is not None
    assert after is not None
    assert after.joules >= before.joules or math.isclose(after.joules, before.joules, rel_tol=1e-9)


@given(PROFILES, TIMES, st.floats(0, 3600), st.sampled_from([1.0, 5.0]))
def test_busy_time_is_never_longer_than_time(
    profile: Profile, at: float, span: float, interval: float
) -> None:
    """Seconds that were busy lie between none and all."""
    busy = busy_seconds(profile, at, at + span, interval)
    assert -1e-3 <= busy <= span + 1e-3


@given(st.integers(5, 900), st.sampled_from([1, 5]), st.integers(0, 1000))
def test_a_burst_shows_in_exactly_one_sample_of_its_period(period: int, interval: int, phase: int) -> None:
    """However the scrapes fall, one of them sees it and only one."""
    period -= period % interval
    start = NOW + phase / 1000 * interval
    profile = Profile("burst", float(period))
    seen = [is_busy(profile, start + n * interval, float(interval)) for n in range(period // interval)]
    assert sum(seen) == 1


@given(st.integers(1, 900), st.integers(1, 900))
def test_a_duty_cycle_is_busy_for_its_share_of_whole_periods(on: int, off: int) -> None:
    """The integral over three periods is three times the time on."""
    profile = Profile("duty", float(on), float(off))
    assert busy_seconds(profile, NOW, NOW + 3 * (on + off), 1.0) == pytest.approx(3 * on)


def test_what_is_wrong_with_some_sensors_shows() -> None:
    """Each defect is the one that its name promises."""

    def at(text: str) -> object:
        return sample(parse_activity(text, NOW)[0], None, NOW - 7200, NOW, 1.0)

    stuck, false_zero, garbage = at("prof-stuck"), at("hami-false-zero"), at("garbage")
    assert (stuck.utilization, stuck.profiled) == (99.0, 0.0)
    assert (false_zero.utilization, false_zero.host, false_zero.kernel_age) == (0.0, BUSY_PERCENT, 1.0)
    assert garbage.utilization > 100
    assert at("silent") is None
    assert at("silent-from:now") is None
    assert at("silent-from:2027-01-15T08:00:01Z").utilization == 0
    assert at("xid:48").xid == 48
    resets = [sample(Profile("xid", 48, 300), None, NOW, 300.0 * 10 + step, 1.0) for step in (149, 150)]
    assert [one and one.xid for one in resets] == [0, 48]
    assert at("idle").kernel_age == 7200
    assert at("frozen").joules == sample(Profile("frozen"), None, NOW - 7200, NOW + 60, 1.0).joules
