"""The parts for large clusters: what they measure is what they say."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from bench import __main__ as command
from bench import fleet
from bench.fleet_samples import METRICS_PER_DEVICE, series, value
from bench.judging import check, planned, surveyed, with_verdicts
from bench.measures import Measure
from bench.pod_list import EVERY, event, listed_pod, page
from bench.report import Run, show
from bench.rounds import Plan
from policy.objects import Pod
from policy.verdicts import VerdictKind
from reaper.observation import Observation
from reaper.world import decode_pod
from runtime.listing import Head


def test_the_pages_of_a_list_hold_every_pod_once() -> None:
    """Each with its own name and UID, and one in fifteen with GPUs."""
    seen: dict[str, bool] = {}
    for begin in range(0, 90, 40):
        found = msgspec.json.decode(page(begin, min(begin + 40, 90), 90))
        assert bool(found["metadata"]["continue"]) is (begin < 80)
        for item in found["items"]:
            raw = msgspec.Raw(msgspec.json.encode(item))
            seen[item["metadata"]["uid"]] = decode_pod(raw) is not None
    assert len(seen) == 90
    assert sum(seen.values()) == 90 // EVERY


@pytest.mark.parametrize(("every", "gpu"), [(1, True), (1000, False)])
def test_changes_are_of_the_kind_that_is_asked_for(every: int, gpu: bool) -> None:
    """A line of a watch, with the version that the reader waits for."""
    line = msgspec.json.decode(event(7, 99, every))
    assert line["type"] == "MODIFIED"
    raw = msgspec.Raw(msgspec.json.encode(line["object"]))
    assert msgspec.json.decode(raw, type=Head).metadata.resource_version == "99"
    assert (decode_pod(raw) is not None) is gpu


def test_pods_are_about_as_large_as_a_kubelet_leaves_them() -> None:
    """Small pods would make reading look cheap."""
    assert len(listed_pod(1, 1)) > 5000
    assert len(listed_pod(0, 1)) > 7000
    assert msgspec.json.decode(listed_pod(1, 1), type=Pod).status is not None


def test_the_fleet_is_judged_in_all_three_ways() -> None:
    """A fleet of which all fare alike would be less work."""
    observation = Observation(fleet.NOW, True, windows={fleet.WINDOW: fleet.signals(60)})
    subjects = with_verdicts(surveyed(fleet.fleet(60), fleet.namespaces()), observation)
    kinds = [one.verdict.kind for one in subjects if one.verdict]
    assert len(kinds) == 60
    assert {VerdictKind.ACTIVE, VerdictKind.IDLE, VerdictKind.UNKNOWN} == set(kinds)
    assert planned(subjects).skips
    with pytest.raises(fleet.FleetError):
        check(subjects)


def test_the_series_of_a_fleet_name_its_pods() -> None:
    """Five of each device, and gaps where the fleet says so."""
    found = list(series(3))
    assert len(found) == 3 * fleet.DEVICES_PER_POD * METRICS_PER_DEVICE
    assert all(f'exported_pod="{fleet.key_of(pod)[1]}"' in name for name, pod in found)
    assert value("DCGM_FI_DEV_GPU_UTIL", 1, 0) == "97.0"
    assert value("DCGM_FI_DEV_GPU_UTIL", 0, 0) == "0"
    assert value("DCGM_FI_DEV_GPU_UTIL", 9, 0) == ""


def test_figures_are_shown_beside_limit_and_comparator() -> None:
    """A missed limit is said; a ratio tells how many times as much the other takes."""
    good = Measure("reading", 2.0, "s", 3.0, "the models", 100.0)
    out = StringIO()
    show(
        Run(Plan(), parts={"watch": [good, Measure("memory", 1200.0, "MB", 1000.0)]}),
        Console(file=out, width=110),
    )
    reading, memory = (line for line in out.getvalue().splitlines() if "reading" in line or "memory" in line)
    assert all(cell in reading for cell in ("2 s", "3 s", "reached", "the models", "100 s", "50.0"))
    assert "not reached" not in reading
    assert "not reached" in memory


def test_parts_are_chosen_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what is named is measured; a name that is none is refused with those that are."""
    monkeypatch.setitem(command.MEASURES, "judge", lambda _: [Measure("judging", 0.5, "s", 1.0)])
    assert command.main(["judge", "--output", "json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["figures"] == []
    assert [one["what"] for one in found["parts"]["judge"]] == ["judging"]
    with pytest.raises(SystemExit):
        command.main(["everything"])
    assert "admission, creations, watch, judge, cycle" in capsys.readouterr().err
