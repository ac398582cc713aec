"""One of something is not several: numbers in the sentences of all commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from cli.history_table import history_table
from policy.counting import counted
from reaper.reclaims import Reclaim
from reaper.records import Phase, Record
from reaper.tallies import Tally, recommend

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 queries"), (1, "1 query"), (2, "2 queries")], ids=["none", "one", "several"]
)
def test_only_one_of_something_is_singular(number: int, said: str) -> None:
    """Nouns whose plural is not theirs with an s bring it along."""
    assert counted(number, "query", "queries") == said


def taken(name: str, devices: int) -> Reclaim:
    """A pod that was evicted an hour ago."""
    record = Record(
        namespace="team-a",
        name=name,
        pod_name=name,
        pod_uid=name,
        owner_uid=name,
        devices=devices,
        decided_at=NOW - timedelta(hours=1),
        phase=Phase.ACCEPTED,
    )
    return Reclaim(record=record, action="evict")


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ((1,), "1 GPU of 1 pod taken back"),
        ((2,), "2 GPUs of 1 pod taken back"),
        ((1, 1), "2 GPUs of 2 pods taken back"),
    ],
    ids=["one GPU", "several GPUs of one pod", "several pods"],
)
def test_the_history_counts_gpus_and_pods(devices: tuple[int, ...], said: str) -> None:
    """What was taken back in all."""
    found = [taken(f"pod-{number}", one) for number, one in enumerate(devices)]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(history_table(found, NOW, "30d", 200))
    assert f"\n{said}, " in shown.get()


def test_advice_speaks_of_one_pod() -> None:
    """Of one pod that was taken, and of one that was warned."""
    tally = Tally(held_seconds=100, warned=1, active_after_warning=1, taken=1, regretted=1)
    said = " ".join(recommend(tally).sentences)
    assert "1 of 1 pod taken was used again" in said
    assert "1 of 1 pod warned became active" in said
