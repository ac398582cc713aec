"""The page by which verdicts can be predicted: every reason, under its verdict, in the rule's order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policy.verdicts import Reason, VerdictKind
from reaper.judge import PRECEDENCE
from reaper.metrics import PODS

PAGE = (Path(__file__).parents[3] / "docs" / "judging.md").read_text()
REASONS = list(Reason)
FIRST_SKIP = REASONS.index(Reason.EXEMPT)


def listed(kind: VerdictKind) -> list[str]:
    """The reasons in the table under a verdict's heading."""
    section = PAGE.split(f"\n## {kind}\n")[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(r"^\| `([A-Z][A-Za-z]+)` \|", section, re.MULTILINE)


def test_every_reason_of_a_verdict_is_told() -> None:
    """Those of skips are elsewhere; one may be of two verdicts."""
    told = {reason for kind in VerdictKind if kind is not VerdictKind.SKIPPED for reason in listed(kind)}
    assert told == {reason.value for reason in REASONS[:FIRST_SKIP]}


@pytest.mark.parametrize("kind", [VerdictKind.ACTIVE, VerdictKind.UNKNOWN])
def test_the_order_is_that_of_the_judge(kind: VerdictKind) -> None:
    """What is named first is what a pod with several findings gets."""
    order = [reason.value for reason in PRECEDENCE]
    ranks = [
        order.index(reason) for reason in listed(kind) if reason in order and reason != "UnsupportedSource"
    ]
    assert ranks == sorted(ranks)


def test_the_metric_that_it_names_exists() -> None:
    """It tells administrators of faults."""
    name = PODS.describe()[0].name
    assert f"{name}{{verdict=" in PAGE
