"""Every check on facts where one thing is wrong, and on facts where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from cli.doctor.examination import CHECKS, document, examine
from cli.doctor.facts import Canary, Facts, Seen
from cli.doctor.findings import MOST_OBJECTS, Finding, Level, exit_code, some
from cli.doctor.table import doctor_table
from policy.devices import Devices
from policy.profile import Profile
from reaper.signals import Board
from tests.cli.doctor.cases_of_admission import OF_ADMISSION
from tests.cli.doctor.cases_of_clusters import OF_POLICIES, OF_THE_CLUSTER
from tests.cli.doctor.cases_of_installation import OF_THE_INSTALLATION
from tests.cli.doctor.cases_of_metrics import OF_METRICS
from tests.cli.doctor.healthy import bindings, found, healthy, metric_facts
from tests.cli.doctor.wrong import shares
from tests.reaper.judging.past import gpu

CASES = [*OF_THE_INSTALLATION, *OF_ADMISSION, *OF_POLICIES, *OF_METRICS, *OF_THE_CLUSTER]


@pytest.mark.parametrize(
    ("facts", "check", "level", "todo"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_what_is_wrong_is_said_with_what_to_do(facts: Facts, check: str, level: Level, todo: str) -> None:
    """At its level, with why it matters."""
    (first, *_) = found(facts, check)
    assert first.level is level
    assert todo in first.todo
    assert first.what


def test_upgrades_name_the_release_and_its_namespace() -> None:
    """As they can be pasted: Helm would look in the context's namespace, and drop the values."""
    todos = [one.todo for case in CASES for one in examine(case[1]) if "helm upgrade gpu-tenure" in one.todo]
    command = "helm upgrade gpu-tenure manifests/chart -n gpu-tenure-system --reset-then-reuse-values"
    assert todos
    assert [todo for todo in todos if command not in todo] == []


def test_a_guard_that_is_missing_is_told_once() -> None:
    """Not again for the binding that went with it."""
    facts = healthy(guards=Seen(()), bindings=Seen(()))
    objects = [name for one in examine(facts) if one.group == "guards" for name in one.objects]
    assert "gpu-tenure-guard-pods" in objects
    assert len(objects) == len(set(objects))


@pytest.mark.parametrize("profile", list(Profile))
def test_nothing_is_said_of_what_is_fine(profile: Profile) -> None:
    """Under every profile all findings are good ones, and every check has at least one."""
    findings = examine(healthy(profile))
    assert [one for one in findings if one.level is not Level.OK] == []
    assert exit_code(findings, strict=True) == 0
    for check in CHECKS:
        assert list(check(healthy(profile))), f"{check.__module__} says that it looked"


def test_every_check_has_a_case() -> None:
    """Whatever the checks can say of healthy facts, they can say otherwise, too."""
    good = {one.check for one in examine(healthy())}
    assert good - {case[2] for case in CASES} <= {
        *(f"rights.{one}" for one in ("webhook", "quota", "certs")),
        *(f"installation.{one}" for one in ("quota", "certs", "quota-lease", "certs-lease")),
        "cluster.quotas",
    }


def test_every_check_is_documented() -> None:
    """By its name, with the group where it is one of several."""
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()
    said = {case[2] for case in CASES} | {one.check for one in examine(healthy())}
    assert sorted(one for one in said if f"`{one.removesuffix('-version')}`" not in page) == []


def test_a_canary_that_we_refuse_was_seen_by_us() -> None:
    """A policy that refuses its image proves that the API server calls."""
    said = 'admission webhook "validate.gpu-tenure.io" denied the request: image'
    (one,) = found(healthy(canary=Canary("default", 403, said)), "admission.canary")
    assert one.level is Level.OK


def test_shares_of_hami_are_not_dcgm_exporters_to_name() -> None:
    """Nor is a pod of another vendor, or one that has only just started."""
    for pod in (
        gpu("p", 1, resource="amd.com/gpu"),
        gpu("p", 1, started=2),
        gpu("p", devices=Devices({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}, ("main",))),
    ):
        facts = healthy(pods=Seen((pod,)), metrics=metric_facts(boards={"GPU-0": Board(moved=1.0)}))
        assert found(facts, "exporters.pod-labels") == []


def test_shares_that_move_are_no_finding() -> None:
    """One sharer that is seen to compute proves that the exporter tells them apart."""
    assert found(shares(0.0, 40.0), "exporters.sharers")[0].level is Level.OK
    assert found(shares(0.0, 40.0, virtual=True, watts=300.0), "exporters.host-pid") == []


def test_a_card_at_rest_accuses_nobody() -> None:
    """Where nothing shows work, zero may be true."""
    assert found(shares(0.0, 0.0, virtual=True, watts=60.0), "exporters.host-pid") == []


def test_the_worst_comes_first() -> None:
    """Groups by their worst finding, and within a group by level."""
    facts = healthy(canary=Canary("default", 201), git_version="v1.32.0")
    findings = examine(facts)
    assert findings[0].check == "admission.canary"
    groups = [one.group for one in findings]
    assert len(set(groups)) == sum(one != before for one, before in zip(groups, ["", *groups], strict=False))
    assert groups.index("installation") > groups.index("admission") == 0


def test_the_exit_code_is_for_warnings_and_errors() -> None:
    """What could not be seen counts only if one asks for that."""
    unseen = Finding("a.b", Level.UNKNOWN, "x")
    assert [exit_code([unseen], strict=one) for one in (False, True)] == [0, 1]
    assert exit_code([Finding("a.b", Level.INFO, "x")], strict=True) == 0
    assert exit_code([Finding("a.b", Level.WARNING, "x")], strict=False) == 1


def test_long_lists_are_cut() -> None:
    """With how many were left out."""
    assert some(f"{index:02}" for index in range(25))[-1] == "and 6 more"
    assert len(some(map(str, range(25)))) == MOST_OBJECTS


def shown(facts: Facts, width: int = 120, *, every: bool = False) -> str:
    """The table as text."""
    console = Console(width=width)
    with console.capture() as captured:
        console.print(doctor_table(examine(facts), width, every=every))
    return captured.get()


def test_people_see_what_why_and_what_to_do() -> None:
    """Fine things are counted, and shown only if asked for; narrow terminals lose the name of the check."""
    facts = healthy(bindings=healthy(Profile.OBSERVE).bindings)
    text = shown(facts)
    assert "why: whoever may change pods can change their terms" in text
    assert "do:  helm upgrade" in text
    assert "errors (guards.bindings)" in text
    assert "not paused" not in text
    assert "not paused" in shown(facts, every=True)
    assert "CHECK" not in shown(facts, width=80)
    assert shown(healthy()).strip().endswith("fine (--all shows them)")


def test_one_is_counted_as_one() -> None:
    """In the last line."""
    text = shown(healthy(bindings=Seen(bindings(Profile.WARN, pods=[]))))
    assert "1 error (guards.bindings)" in text


def test_programs_get_every_finding() -> None:
    """With counts by level."""
    facts = healthy(bindings=type(healthy().bindings)(bindings(Profile.WARN, pods=[])))
    told = document(facts, examine(facts))
    assert told["counts"]["error"] == 1
    (one,) = [entry for entry in told["findings"] if entry["level"] == "error"]
    assert one["objects"] == ["gpu-tenure-guard-pods"]
    assert set(one) == {"check", "level", "what", "why", "todo", "objects"}
    assert (told["profile"], told["kubernetes"]) == ("warn", "v1.36.0")
