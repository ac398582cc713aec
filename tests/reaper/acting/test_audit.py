"""The audit log: what entries hold, that users cannot forge lines, and that nothing ever waits for it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from policy.keys import Annotation
from policy.terms import Action
from policy.verdicts import VerdictKind
from reaper import metrics
from reaper.act import Outcome, Result
from reaper.audit import MESSAGES, Audited, AuditLog, audited, bounded, entry_of, line_of
from reaper.marking import SAID
from reaper.pause import Pause
from reaper.report import NoEvents, Reporter
from reaper.stops import Stop
from sandbox.deadline import wait
from tests.reaper.acting.made import NOON, due_subject, minutes, record_of_pod, subject_of
from tests.reaper.acting.worlds import FakeWorld, warned

REAPER = Path(__file__).parents[3] / "reaper"
HEAD = {"schema", "at", "by", "dryRun", "event"}


class Kept:
    """An AuditPort that keeps what it takes."""

    def __init__(self) -> None:
        self.entries: list[Mapping[str, Any]] = []

    def write(self, entry: Mapping[str, Any]) -> None:
        """Keeps an entry."""
        self.entries.append(entry)

    @property
    def events(self) -> list[str]:
        """What the entries tell of."""
        return [entry["event"] for entry in self.entries]


def listened(world: FakeWorld) -> Kept:
    """Gives a world an audit log."""
    kept = Kept()
    world.cycle._reporter._audit = kept
    return kept


async def test_a_warning_and_the_action_say_who_what_why_and_how_it_is_known() -> None:
    """The entries of one pod from its warning to its end."""
    world = FakeWorld()
    kept = listened(world)
    world.add("a", annotations={Annotation.REQUESTED_BY: "ann"})
    await world.run(40)
    assert kept.events == ["warning", "action"]
    warning, action = kept.entries
    assert (warning["pod"], warning["requester"], warning["policy"], warning["devices"]) == (
        "a",
        "ann",
        "default",
        1,
    )
    assert (warning["verdict"], warning["reason"]) == ("Idle", "BelowThreshold")
    assert warning["evidence"]["devicesSeen"] == 1
    assert warning["details"]["reclaim_at"] == "2025-03-01T12:32:00Z"
    assert action["details"]["outcome"] == "Accepted"
    assert action["owner"] == {"kind": "Pod", "name": "a", "uid": "uid-team-a-a"}


async def test_what_does_not_happen_is_told_too() -> None:
    """A refusal, a spared pod, a withdrawn warning, a snooze, and a pause with its end."""
    world = await warned()
    kept = listened(world)
    world.actor.answers["a"] = Result(Outcome.REFUSED, "no")
    await world.run(1, after=minutes(31))
    world.turns("a", VerdictKind.ACTIVE)
    world.paused = Pause(paused=True, reason="works")
    await world.run(1)
    world.paused = Pause(paused=False)
    await world.run(1)
    assert kept.events == ["refusal", "hold", "release", "withdrawn"]
    assert kept.entries[1]["reason"] == "Paused"
    assert kept.entries[3]["details"] == {"because": "AboveThreshold"}
    world.add("b", annotations={Annotation.KEEP_UNTIL: "4h"})
    await world.run(1)
    assert kept.events[-1] == "snooze"


def test_every_line_about_a_pod_has_a_name_here() -> None:
    """What is logged about pods anywhere in the reaper is in the table of docs/audit.md."""
    said = set()
    for path in REAPER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr == "line" and isinstance(node, ast.Call):
                first = node.args[0]
                said |= {first.value} if isinstance(first, ast.Constant) else set()
    assert (said | set(SAID.values())) - set(MESSAGES) == set()
    documented = (REAPER.parent / "docs" / "audit.md").read_text()
    assert [name for name in Audited if f"`{name}`" not in documented] == []


def test_every_field_is_documented() -> None:
    """The page names each field of an entry."""
    documented = (REAPER.parent / "docs" / "audit.md").read_text()
    entry = json.loads(line_of(entry_of("pod warned", due_subject(), {}), NOON, "me", dry_run=False))
    named = {*entry, *entry["evidence"], *entry["owner"]}
    assert named >= HEAD
    assert [name for name in named if f"`{name}`" not in documented] == []


FORGED = 'x\n{"schema": "gpu-tenure.io/audit/v1"}\u2028\u202e\x1b[2J\ud800'


def test_no_text_of_a_user_can_forge_a_line_or_make_one_long() -> None:
    """Whatever a pod is called or says, an entry is one short line of JSON."""
    subject = subject_of(root=None)
    fields = {"why": FORGED * 1000, FORGED: [FORGED] * 1000, "deep": {"a": {"b": {"c": {"d": {"e": 1}}}}}}
    line = line_of(entry_of("pod spared", subject, fields), NOON, "me", dry_run=True)
    text = line.decode()
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    assert len(line) < 60_000
    found = json.loads(text)
    assert found["dryRun"] is True
    assert len(found["details"]["why"]) == 512


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"a": None}, {}, id="what is not known is left out"),
        pytest.param(list(range(60)), list(range(50)), id="lists are cut"),
        pytest.param("é" * 600, "é" * 511 + "…", id="texts are cut between characters"),
        pytest.param(NOON, str(NOON), id="anything else becomes text"),
    ],
)
def test_values_are_bounded(value: Any, expected: Any) -> None:
    """An entry has a size that nobody can exceed."""
    assert bounded(value) == expected


def test_what_was_undone_is_told_by_the_action_that_it_undid() -> None:
    """A resumed owner is no pod of a cycle; its record names it."""
    kept = Kept()
    stop = Stop(
        api_version="batch/v1",
        kind="Job",
        resource="jobs",
        name="train",
        uid="uid-train",
        field="/spec/suspend",
        value="true",
        remember="/spec/suspend",
    )
    record = structs.replace(record_of_pod("uid-a"), action=Action.STOP, stop=stop, requester="ann")
    reporter = Reporter(NoEvents(), dry_run=False, audit=kept)
    reporter.undone(Audited.RESUME, "stop resumed", record, "gpu-tenure-resume")
    (entry,) = kept.entries
    assert (entry["event"], entry["requester"], entry["owner"]["name"]) == ("resume", "ann", "train")
    assert entry["details"] == {"by": "gpu-tenure-resume", "decided_at": "2025-03-01T11:50:00Z"}


async def test_a_pod_that_is_blocked_for_hours_is_told_of_it_once() -> None:
    """Events are few, however often it is tried; the audit log has each try."""
    world = await warned()
    kept = listened(world)
    world.actor.answers["a"] = Result(Outcome.BUDGET, "a budget")
    await world.run(300)
    assert world.events.reasons("a") == ["GPUIdleWarning", "GPUEvictionBlocked"]
    assert set(kept.events) == {"refusal"}
    assert len(kept.events) > 10


def test_unknown_lines_are_kept_under_other() -> None:
    """A line that the table forgot is not lost."""
    assert audited("something new", {}) is Audited.OTHER


def log_of(path: Path | str, queued: int = 100) -> AuditLog:
    """Gives a log at noon."""
    return AuditLog(str(path), lambda: NOON, "me", dry_run=False, queued=queued)


def lines_in(path: Path) -> list[dict[str, Any]]:
    """Gives the entries of a file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_lines_are_appended_and_a_moved_file_is_followed(tmp_path: Path) -> None:
    """As logrotate does: the old file ends, a new one begins."""
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    path.write_text('{"event": "before"}\n')
    log = log_of(path)
    log.write({"event": "one"})
    wait(lambda: len(lines_in(path)) == 2, 5, "the first line is written")
    path.rename(old)
    log.write({"event": "two"})
    log.close()
    assert [one["event"] for one in lines_in(old)] == ["before", "one"]
    assert [one["event"] for one in lines_in(path)] == ["two"]
    assert lines_in(path)[0] == {
        "schema": "gpu-tenure.io/audit/v1",
        "at": "2025-03-01T12:00:00Z",
        "by": "me",
        "dryRun": False,
        "event": "two",
    }


def lost() -> float:
    """Gives how many entries were lost."""
    value: float = metrics.AUDIT.labels("lost")._value.get()
    return value


def test_a_file_that_takes_nothing_makes_nobody_wait(tmp_path: Path) -> None:
    """A pipe that nobody reads fills up: what comes then is counted as lost, at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = log_of(pipe, queued=2)
    before = lost()
    for _ in range(400):
        log.write({"event": "x" * 500})
    assert lost() > before + 100
    os.close(reader)
    log.close()


def test_a_full_disk_is_counted_and_the_log_goes_on() -> None:
    """Writing fails, and nothing else does."""
    before = lost()
    log = log_of("/dev/full")
    log.write({"event": "one"})
    log.close()
    assert lost() == before + 1


def test_a_dash_is_standard_output() -> None:
    """Where a container's log is what is kept; logs of the process itself go to standard error."""
    code = (
        "from datetime import UTC, datetime\n"
        "from reaper.audit import AuditLog\n"
        "log = AuditLog('-', lambda: datetime(2025, 3, 1, tzinfo=UTC), 'me', dry_run=True)\n"
        "log.write({'event': 'warning'})\n"
        "log.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=30, cwd=REAPER.parent
    )
    assert json.loads(done.stdout)["event"] == "warning"
