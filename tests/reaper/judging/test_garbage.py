"""What a Prometheus that answers anything at all may cause: an observation, and never an Idle verdict."""

from __future__ import annotations

import math
import random
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.exporters import SOURCES
from reaper.judge import judge
from reaper.observation import observe
from reaper.prometheus import Sample
from tests.reaper.acting.made import NOON, TERMS, pod_of

NAMES = sorted({metric.name for source in SOURCES for metric in source.metrics})
PLACE = {"namespace": "team-a", "pod": "a", "container": "main", "UUID": "GPU-1", "gpu": "0", "job": "gpus"}
HAMI = {"podnamespace": "team-a", "podname": "a", "ctrname": "main", "deviceuuid": "GPU-1", "vdeviceid": "0"}
NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    1e300,
    -1.0,
    0.0,
    5.0,
    240.0,
    NOON.timestamp(),
    NOON.timestamp() * 1e6,
]


class AnyAnswer:
    """A Prometheus whose answers have nothing to do with the questions."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - answers are made up, not kept secret

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """Gives anything of the right shape."""
        assert expression
        assert at == NOON
        draw = self._rng.choice
        return [
            Sample({"__name__": draw(NAMES), **draw([PLACE, HAMI])}, draw(NUMBERS))
            for _ in range(self._rng.randint(0, 8))
        ]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
async def test_impossible_answers_never_raise_and_never_prove_idleness(seed: int) -> None:
    """Numbers that no Prometheus gives make the observation incomplete at worst."""
    prometheus = AnyAnswer(seed)
    observation = await observe(prometheus, [TERMS.after.seconds], NOON, JudgeSettings(), [5])
    verdict = judge(pod_of("a"), TERMS, observation, NOON, JudgeSettings())
    assert verdict.kind is not VerdictKind.IDLE


async def test_impossible_numbers_are_said() -> None:
    """At least one of a few such answers is told as garbage."""
    found = [
        await observe(AnyAnswer(seed), [TERMS.after.seconds], NOON, JudgeSettings(), [5])
        for seed in range(100)
    ]
    assert any(one.problem is Reason.GARBAGE_ANSWER and not one.complete for one in found)
