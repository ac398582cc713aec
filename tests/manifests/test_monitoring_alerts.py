"""Alerts and runbooks: each alert holds when it should and not when it should not, and each has its page."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import build
from sandbox.binaries import ensure
from tests.manifests.rendered import of_kind

Objects = list[dict[str, Any]]
Rule = dict[str, Any]
RUNBOOKS = Path(__file__).parents[2] / "manifests" / "runbooks"
CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "data" / "alerts.yaml").read_text())
LOW_USAGE = {"LowGPUUsagePodDetected", "GPULowUsagePodDetected"}
"""Tested with what they tell, in test_alerts.py."""
ALL = {
    "rules": {"kind": "PrometheusRule", "longWindows": []},
    "canary": {"enabled": True},
    "quota": {"enabled": True},
}
PARTS = ("Meaning", "Impact", "Diagnosis", "Mitigation")


def groups_of(objects: Objects) -> list[dict[str, Any]]:
    """The groups that the chart renders."""
    found: list[dict[str, Any]] = of_kind(objects, "PrometheusRule")["gpu-tenure-rules"]["spec"]["groups"]
    return found


def alerts_of(groups: list[dict[str, Any]]) -> list[Rule]:
    """All alerts."""
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


@pytest.fixture(scope="module")
def groups(render: Callable[..., Objects]) -> list[dict[str, Any]]:
    """Everything that the chart can render; of the two ways to run the reaper both."""
    deployed = groups_of(render(ALL))
    names = {group["name"] for group in deployed}
    job = groups_of(render({**ALL, "reaper": {"mode": "CronJob"}}))
    return [*deployed, *(group for group in job if group["name"] not in names)]


def test_every_alert_has_a_case(groups: list[dict[str, Any]]) -> None:
    """And no case is about an alert that is gone."""
    names = [case["alert"] for case in CASES]
    assert len(names) == len(set(names))
    assert {*names} | LOW_USAGE == {rule["alert"] for rule in alerts_of(groups)}


def test_every_alert_says_what_it_is_and_where_to_read_on(groups: list[dict[str, Any]]) -> None:
    """Summary, description, severity, how long it must hold, and a runbook by its name."""
    for rule in alerts_of(groups):
        name, notes = rule["alert"], rule["annotations"]
        assert {"summary", "description", "runbook_url"} <= set(notes), name
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}, name
        assert name in LOW_USAGE or rule["for"], name
        assert notes["runbook_url"] == f"manifests/runbooks/{name}.md"
        assert (RUNBOOKS.parent.parent / notes["runbook_url"]).is_file(), name


def test_runbooks_and_alerts_are_the_same(groups: list[dict[str, Any]]) -> None:
    """No page without its alert; each says what it means, what it does, how to look and what to do."""
    alerts = {rule["alert"] for rule in alerts_of(groups)}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == alerts
    for name in alerts:
        lines = (RUNBOOKS / f"{name}.md").read_text().splitlines()
        assert lines[0] == f"# {name}"
        assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == list(PARTS), name


def test_runbooks_name_commands_and_options_that_exist() -> None:
    """Of `gpu-tenure`: each is asked for its help."""
    lines = {line for page in RUNBOOKS.glob("*.md") for line in page.read_text().splitlines()}
    said = {
        match
        for line in lines
        for match in re.findall(r"gpu-tenure ((?:certs )?[a-z]+)((?: --?[a-z-]+)*)", line)
    }
    words = {(verb, option) for verb, options in said for option in options.split() or [""]}
    assert ("unpause", "--brake") in words
    for verb, option in words - {("rollout", ""), ("get", ""), ("patch", "")}:
        parts = verb.split()
        done = CliRunner().invoke(build(parts), [*parts, "--help"], env={"COLUMNS": "300"})
        assert done.exit_code == 0, verb
        assert option in done.output, (verb, option)


def test_runbooks_leave_certificates_of_others_alone(groups: list[dict[str, Any]]) -> None:
    """Those for every source say for which one `certs ensure` is: it writes Secrets and caBundles."""
    ours = {
        rule["alert"]
        for rule in alerts_of([one for one in groups if one["name"] == "gpu-tenure-certificates"])
    }
    pages = {page.stem: page.read_text() for page in RUNBOOKS.glob("*.md")}
    naming = {name for name, text in pages.items() if "certs ensure" in text} - ours
    assert naming == {"GPUTenureServingCertificateExpires"}
    for name in naming:
        assert "| `certs` | `gpu-tenure certs ensure` |" in pages[name]


def test_the_documentation_has_every_alert_and_recording(groups: list[dict[str, Any]]) -> None:
    """With its severity and how long it must hold."""
    page = (RUNBOOKS.parent.parent / "docs" / "monitoring.md").read_text()
    for rule in (rule for group in groups for rule in group["rules"]):
        if "record" in rule:
            assert f"| `{rule['record']}` |" in page
            continue
        row = next(line for line in page.splitlines() if line.startswith(f"| [`{rule['alert']}`]"))
        assert row.split(" | ")[2:4] == [rule["labels"]["severity"], rule.get("for", "–")], row  # noqa: RUF001 - a dash


def test_recordings_are_named_as_prometheus_names_them(groups: list[dict[str, Any]]) -> None:
    """Level, metric, operation; none twice."""
    names = [rule["record"] for group in groups for rule in group["rules"] if "record" in rule]
    assert len(names) == len(set(names))
    assert all(len(name.split(":")) == 3 for name in names)


@pytest.mark.parametrize(
    ("values", "absent"),
    [
        pytest.param({"reaper": {"mode": "CronJob"}}, "reaper", id="a CronJob is not scraped"),
        pytest.param(
            {"tls": {"source": "cert-manager"}, "canary": {}}, "certificates", id="another's certificates"
        ),
        pytest.param({"quota": {}}, "quota", id="no quotas"),
        pytest.param({"canary": {}}, "canary", id="no canary"),
        pytest.param({"rules": {"kind": "PrometheusRule", "apiServer": False}}, "api-server", id="a switch"),
    ],
)
def test_what_does_not_run_is_not_missed(
    render: Callable[..., Objects], values: dict[str, Any], absent: str
) -> None:
    """Its group is left out."""
    names = {group["name"] for group in groups_of(render({**ALL, **values}))}
    assert f"gpu-tenure-{absent}" not in names
    assert "gpu-tenure-webhook" in names


SHORT = {"certs": {"caLife": "10d", "caRenew": "1d12h", "leafLife": "1d", "leafRenew": "08h"}}
BY_ENVIRONMENT = {"certs": {"env": {"GPU_TENURE_CERTS_LEAF_RENEW": "2d"}}}
THEIRS = {"tls": {"source": "secret", "caBundle": "QQ=="}, "canary": {}}
SEEN = "cluster:gpu_tenure_reaper_pods_without_terms:sum"


@pytest.mark.parametrize(
    ("values", "name", "limit"),
    [
        pytest.param({}, "GPUTenureCertificateExpires", "< 1209600", id="14 days"),
        pytest.param(SHORT, "GPUTenureCertificateExpires", "< 14400", id="half of what is left at renewal"),
        pytest.param(BY_ENVIRONMENT, "GPUTenureCertificateExpires", "< 86400", id="the environment wins"),
        pytest.param({}, "GPUTenureCertificateUntrusted", "< 86400", id="a day"),
        pytest.param(SHORT, "GPUTenureCertificateUntrusted", "< 64800", id="half of that of the CA"),
        pytest.param({}, "GPUTenureServingCertificateExpires", "< 604800", id="7 days"),
        pytest.param(SHORT, "GPUTenureServingCertificateExpires", "< 7200", id="a quarter"),
        pytest.param(
            {**THEIRS, **SHORT}, "GPUTenureServingCertificateExpires", "< 604800", id="not our lives"
        ),
        pytest.param(
            {**THEIRS, "rules": {"kind": "PrometheusRule", "certificateLeft": "1d6h"}},
            "GPUTenureServingCertificateExpires",
            "< 108000",
            id="somebody else's, by its value",
        ),
        pytest.param({}, "GPUTenureReaperWithoutCycle", "> 900", id="a quarter of an hour"),
        pytest.param({"reaper": {"cycle": "5m"}}, "GPUTenureReaperWithoutCycle", "> 4500", id="15 cycles"),
        pytest.param({"reaper": {"cycle": "5m"}}, SEEN, "> time() - 4500", id="a cycle that still counts"),
    ],
)
def test_limits_follow_the_values(
    render: Callable[..., Objects], values: dict[str, Any], name: str, limit: str
) -> None:
    """So that no alert holds for ever where all is well."""
    rules = [rule for group in groups_of(render({**ALL, **values})) for rule in group["rules"]]
    (expression,) = [rule["expr"] for rule in rules if rule.get("alert", rule.get("record")) == name]
    assert re.search(rf"{re.escape(limit)}$", expression, re.MULTILINE), expression


def test_a_probe_that_is_off_does_not_fail(render: Callable[..., Objects]) -> None:
    """Its alert is left out, and nothing else."""
    off = {**ALL, "certs": {"env": {"GPU_TENURE_CERTS_PROBE": "none"}}}
    before, after = ({rule["alert"] for rule in alerts_of(groups_of(render(one)))} for one in (ALL, off))
    assert before - after == {"GPUTenureCertificateProbeFails"}
    assert after < before


def test_dashboards_come_as_files_that_the_sidecar_finds(render: Callable[..., Objects]) -> None:
    """Each as it lies in the chart, with the label that was asked for; none unless it is enabled."""
    values = {"enabled": True, "namespace": "monitoring", "labels": {"boards": "yes"}}
    folder = RUNBOOKS.parent / "chart" / "files" / "dashboards"
    shipped = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    found = {}
    for one in of_kind(render({"dashboards": values}), "ConfigMap").values():
        if one["metadata"]["namespace"] == "monitoring":
            assert one["metadata"]["labels"]["boards"] == "yes"
            ((name, text),) = one["data"].items()
            found[name.removeprefix("gpu-tenure-").removesuffix(".json")] = json.loads(text)
    assert found == shipped
    assert not [name for name in of_kind(render(), "ConfigMap") if "dashboard" in name]


def test_the_right_to_try_a_pod_ends_at_its_namespace(render: Callable[..., Objects]) -> None:
    """And only dry runs pass there, whoever asks; without the canary there is none of it."""
    objects = render({"canary": {"enabled": True, "namespace": "tries"}})
    role = of_kind(objects, "Role")["gpu-tenure-canary"]
    assert role["metadata"]["namespace"] == "tries"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    policy = of_kind(objects, "ValidatingAdmissionPolicy")["gpu-tenure-canary"]["spec"]
    selected = {"matchLabels": {"kubernetes.io/metadata.name": "tries"}}
    assert (policy["failurePolicy"], policy["matchConstraints"]["namespaceSelector"]) == ("Fail", selected)
    pod = of_kind(objects, "Deployment")["gpu-tenure-certs"]["spec"]["template"]["spec"]
    said = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
    assert said["GPU_TENURE_CERTS_CANARY_NAMESPACE"] == "tries"
    assert not [one for one in render() if "canary" in one["metadata"]["name"]]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"tls": {"source": "cert-manager"}}, "tls.source=certs", id="nobody would try it"),
        pytest.param(
            {"excludedNamespaces": ["gpu-tenure-canary"]}, "is excluded", id="where nothing gets terms"
        ),
    ],
)
def test_a_canary_that_says_nothing_is_refused(
    render: Callable[..., Objects], values: dict[str, Any], says: str
) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match=says):
        render({"canary": {"enabled": True}, **values})


def metrics_in(series: Iterable[str]) -> set[str]:
    """The metrics of series."""
    return {one.partition("{")[0] for one in series}


def promtool_tests() -> list[dict[str, Any]]:
    """All ways of each case, as few tests as can be: cases that share no metric are played together."""
    tests: list[dict[str, Any]] = []
    for case, way in ((case, way) for case in CASES for way in ("fires", "too", "quiet") if way in case):
        labels = {"severity": case["severity"], **case.get("labels", {})}
        expected = [] if way == "quiet" else [{"exp_labels": labels}]
        # What is absent in one case may not be there by another.
        needed = metrics_in(case[way]) or metrics_in(case["quiet"])
        test = next((one for one in tests if not needed & one["taken"]), None)
        if test is None:
            test = {"interval": "1m", "input_series": [], "alert_rule_test": [], "taken": set()}
            tests.append(test)
        test["taken"] |= needed
        test["input_series"] += [{"series": key, "values": value} for key, value in case[way].items()]
        test["alert_rule_test"].append(
            {"eval_time": case["at"], "alertname": case["alert"], "exp_alerts": expected}
        )
    return [{key: value for key, value in one.items() if key != "taken"} for one in tests]


def test_each_alert_holds_when_it_should_and_only_then(groups: list[dict[str, Any]], tmp_path: Path) -> None:
    """Promtool checks all rules, and plays every case of each alert."""
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in alerts_of(groups)}
    for case in CASES:
        case["severity"] = severities[case["alert"]]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    for rule in alerts_of(groups):
        # What it says is compared nowhere: numbers and words would have to be written twice.
        del rule["annotations"]
    (tmp_path / "mute.yaml").write_text(yaml.safe_dump({"groups": groups}))
    cases = {"rule_files": ["mute.yaml"], "evaluation_interval": "1m", "tests": promtool_tests()}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    promtool = ensure(os.environ, ["promtool"]).path("promtool")
    for argv in (["check", "rules", "--lint-fatal", "rules.yaml"], ["test", "rules", "cases.yaml"]):
        done = subprocess.run(
            [promtool, *argv], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
