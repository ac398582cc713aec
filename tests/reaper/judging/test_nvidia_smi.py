"""Cards judged by recordings of nvidia-smi, as that prints them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.asking import policy_terms
from policy.classes import PodClass
from policy.errors import InvalidError
from policy.memory import parse_memory
from policy.spec import BUILT_IN
from policy.terms import Statistic, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.nvidia_smi import judge_cards, read_samples

HEADER = (
    "timestamp, index, uuid, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], "
    "utilization.encoder [%], mig.mode.current, ecc.errors.uncorrected.volatile.total"
)
START = datetime(2026, 3, 1, 8, 0, 0)  # noqa: DTZ001 - the tool prints no zone
TERMS = policy_terms(BUILT_IN, PodClass.BATCH)
STEP = 15
WHOLE = TERMS.after.seconds // STEP


def line(number: int, util: str = "0 %", **over: str) -> str:
    """One sample, `number` steps after the start."""
    at = START + timedelta(seconds=STEP * number)
    cells = {
        "at": f"{at:%Y/%m/%d %H:%M:%S}.123",
        "index": "0",
        "uuid": "GPU-1",
        "name": "NVIDIA A100-SXM4-40GB",
        "util": util,
        "copy": "0 %",
        "memory": "433 MiB",
        "encoder": "0 %",
        "mig": "Disabled",
        "ecc": "0",
    }
    return ", ".join((cells | over).values())


def verdict(lines: list[str], terms: Terms = TERMS) -> tuple[VerdictKind, Reason]:
    """The verdict on the one card of a recording."""
    (found,) = judge_cards(read_samples([HEADER, *lines], "a.csv"), terms, JudgeSettings())
    return found.kind, found.reason


def quiet(count: int = WHOLE, **over: str) -> list[str]:
    """Samples of a card that does nothing."""
    return [line(number, **over) for number in range(count)]


CASES = [
    pytest.param(quiet(), (VerdictKind.IDLE, Reason.BELOW_THRESHOLD), id="quiet for the whole window"),
    pytest.param(
        [*quiet(), line(WHOLE, "97 %")], (VerdictKind.ACTIVE, Reason.ABOVE_THRESHOLD), id="one busy sample"
    ),
    pytest.param([line(0, "97 %")], (VerdictKind.ACTIVE, Reason.ABOVE_THRESHOLD), id="a single look, busy"),
    pytest.param(
        [line(0)], (VerdictKind.UNKNOWN, Reason.LOW_COVERAGE), id="a single look proves no idleness"
    ),
    pytest.param(quiet(WHOLE // 2), (VerdictKind.UNKNOWN, Reason.LOW_COVERAGE), id="half of the window"),
    pytest.param(
        quiet()[: WHOLE // 3] + quiet()[2 * WHOLE // 3 :],
        (VerdictKind.UNKNOWN, Reason.LOW_COVERAGE),
        id="a hole in the middle",
    ),
    pytest.param(
        [line(0, "97 %"), *quiet(2 * WHOLE)[WHOLE:]],
        (VerdictKind.IDLE, Reason.BELOW_THRESHOLD),
        id="busy before the window",
    ),
    pytest.param(
        quiet(encoder="80 %"), (VerdictKind.ACTIVE, Reason.ABOVE_THRESHOLD), id="a video that is encoded"
    ),
    pytest.param(
        quiet(util="[N/A]"), (VerdictKind.UNKNOWN, Reason.NO_SERIES), id="a card that tells nothing"
    ),
    pytest.param(
        quiet(util="[N/A]", mig="Enabled"),
        (VerdictKind.UNKNOWN, Reason.UNSUPPORTED_SOURCE),
        id="a card that is cut into instances",
    ),
    pytest.param(quiet(mig="Enabled"), (VerdictKind.UNKNOWN, Reason.UNSUPPORTED_SOURCE), id="a zero for all"),
    pytest.param(quiet(ecc="2"), (VerdictKind.UNKNOWN, Reason.DEVICE_FAULT), id="memory that lost bits"),
    pytest.param(
        quiet(util="4294967295 %"), (VerdictKind.UNKNOWN, Reason.GARBAGE_SAMPLES), id="an impossible value"
    ),
    pytest.param(quiet(util="0"), (VerdictKind.IDLE, Reason.BELOW_THRESHOLD), id="without units"),
    pytest.param(
        quiet(at="not a time"), (VerdictKind.UNKNOWN, Reason.LOW_COVERAGE), id="samples without a time"
    ),
]


@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_a_card_is_judged(lines: list[str], expected: tuple[VerdictKind, Reason]) -> None:
    """Idle only where the recording proves it."""
    assert verdict(lines) == expected


@pytest.mark.parametrize(
    ("memory", "statistic", "util", "expected"),
    [
        pytest.param("500Mi", Statistic.MAXIMUM, "0 %", Reason.BELOW_THRESHOLD, id="little memory"),
        pytest.param("400Mi", Statistic.MAXIMUM, "0 %", Reason.MEMORY_HELD, id="memory that is held"),
        pytest.param("5%", Statistic.MAXIMUM, "0 %", Reason.MEMORY_UNKNOWN, id="a share of what is not told"),
        pytest.param(None, Statistic.AVERAGE, "4 %", Reason.BELOW_THRESHOLD, id="a mean below the threshold"),
        pytest.param(None, Statistic.AVERAGE, "6 %", Reason.ABOVE_THRESHOLD, id="a mean above it"),
    ],
)
def test_terms_count(memory: str | None, statistic: Statistic, util: str, expected: Reason) -> None:
    """Those of a policy that is given."""
    limit = parse_memory(memory) if memory else None
    terms = Terms(TERMS.action, TERMS.after, TERMS.utilization, statistic, limit, TERMS.grace, TERMS.warm_up)
    assert verdict(quiet(util=util), terms)[1] is expected


def test_a_mean_forgives_one_burst() -> None:
    """Where a policy says so."""
    terms = Terms(
        TERMS.action, TERMS.after, TERMS.utilization, Statistic.AVERAGE, None, TERMS.grace, TERMS.warm_up
    )
    assert verdict([*quiet(), line(WHOLE, "97 %")], terms)[0] is VerdictKind.IDLE


def test_a_card_that_fell_off_the_bus_is_stale() -> None:
    """Others of the node are recorded on."""
    gone = [line(number, index="1", uuid="GPU-2") for number in range(WHOLE - 40)]
    found = judge_cards(read_samples([HEADER, *quiet(), *gone], "a.csv"), TERMS, JudgeSettings())
    assert [(one.card, one.reason) for one in found] == [
        ("GPU-1", Reason.BELOW_THRESHOLD),
        ("GPU-2", Reason.STALE),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param([], "has no header of the query", id="nothing"),
        pytest.param(["<html>", "a,b"], "has no header of the query", id="something else"),
        pytest.param([HEADER], "names no card", id="a header alone"),
        pytest.param([HEADER, "x, y"], "line 2: has 2 of 10 cells", id="lines that were cut"),
    ],
)
def test_what_is_no_recording_is_refused(lines: list[str], said: str) -> None:
    """With the place, and the command that makes one."""
    with pytest.raises(InvalidError) as error:
        read_samples(lines, "a.csv")
    assert said in str(error.value.errors[0])


def test_a_recording_may_begin_anew() -> None:
    """Appended to the same file after a reboot, and cut in its last line."""
    lines = [HEADER, *quiet(WHOLE // 2), HEADER, *quiet()[WHOLE // 2 :], line(WHOLE)[:30]]
    (found,) = judge_cards(read_samples(lines, "a.csv"), TERMS, JudgeSettings())
    assert found.kind is VerdictKind.IDLE


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(0, WHOLE))
def test_no_text_proves_idleness_or_raises(noise: list[str], place: int) -> None:
    """Whatever stands between half of a window's samples, it cannot make up for the rest."""
    lines = quiet(WHOLE // 2)
    lines[place:place] = noise
    kinds = {one.kind for one in judge_cards(read_samples([HEADER, *lines], "a.csv"), TERMS, JudgeSettings())}
    assert VerdictKind.IDLE not in kinds
