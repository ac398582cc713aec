"""What the chart renders for alerts: settings, Secrets, the Service, and rules that promtool tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reaper.exporters import SOURCES
from reaper.settings import ENV_PREFIX, ReaperSettings
from runtime.settings import load
from sandbox.binaries import ensure

Render = Callable[..., list[dict[str, Any]]]
CASES = Path(__file__).parent / "data" / "rules.yaml"
ONLY_LOW_USAGE = dict.fromkeys(
    ("utilization", "reaper", "webhook", "apiServer", "certificates", "canary", "quota"), False
)

ALERTS = {
    "alertmanager": {
        "urls": ["http://am-0:9093", "https://am-1/prefix"],
        "labels": {"cluster": "a", "site": "north"},
        "secretName": "am",
        "username": "reaper",
        "keys": {"password": "password", "ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"},
    },
    "receiver": {"tokenSecretName": "receiver"},
}


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Gives an object."""
    return next(one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name))


def pod_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Gives the spec of the reaper's pods."""
    found: dict[str, Any] = named(objects, "Deployment", "gpu-tenure-reaper")["spec"]["template"]["spec"]
    return found


def settings_of(objects: list[dict[str, Any]]) -> ReaperSettings:
    """Reads the environment of the reaper's container as it does."""
    environ = {one["name"]: one["value"] for one in pod_spec(objects)["containers"][0]["env"]}
    return load(ReaperSettings, {}, None, ENV_PREFIX, environ)


def test_the_reaper_reads_what_the_chart_says_of_alerts(render: Render) -> None:
    """Addresses, labels, and files that lie in the mounted Secrets."""
    objects = render({"reaper": ALERTS})
    settings = settings_of(objects)
    first, second = settings.alertmanagers()
    assert (first.url, second.url) == ("http://am-0:9093", "https://am-1/prefix")
    assert first.labels == {"cluster": "a", "site": "north"}
    assert (first.username, str(first.password_file)) == (
        "reaper",
        "/etc/gpu-tenure/alertmanager/password",
    )
    assert str(first.cert_file) == "/etc/gpu-tenure/alertmanager/tls.crt"
    assert first.bearer_token_file is None
    assert str(settings.receiver_token_file) == "/etc/gpu-tenure/receiver/token"
    spec = pod_spec(objects)
    secrets = {one["name"]: one["secret"]["secretName"] for one in spec["volumes"]}
    mounts = {one["mountPath"]: secrets[one["name"]] for one in spec["containers"][0]["volumeMounts"]}
    assert mounts == {"/etc/gpu-tenure/alertmanager": "am", "/etc/gpu-tenure/receiver": "receiver"}


def test_the_reaper_reads_what_the_chart_says_of_prometheus(render: Render) -> None:
    """Headers, and files that lie in the mounted Secret."""
    prometheus = {
        "headers": {"X-Scope-OrgID": "gpu"},
        "secretName": "mimir",
        "keys": {"token": "token", "ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"},
    }
    objects = render({"reaper": {"prometheus": prometheus}})
    options = settings_of(objects).prometheus()
    assert options.headers == {"X-Scope-OrgID": "gpu"}
    files = (options.bearer_token_file, options.ca_file, options.cert_file, options.key_file)
    assert [str(one) for one in files] == [
        f"/etc/gpu-tenure/prometheus/{name}" for name in ("token", "ca.crt", "tls.crt", "tls.key")
    ]
    assert pod_spec(objects)["volumes"] == [
        {"name": "prometheus", "secret": {"secretName": "mimir", "defaultMode": 0o440}}
    ]
    with pytest.raises(ValueError, match=r"keys counts only with reaper\.prometheus\.secretName"):
        render({"reaper": {"prometheus": {"keys": {"token": "token"}}}})


def test_without_them_there_is_neither_volume_nor_service(render: Render) -> None:
    """And the receiver does not exist."""
    objects = render()
    settings = settings_of(objects)
    assert (settings.alertmanagers(), settings.receiver_token_file) == ((), None)
    assert "volumes" not in pod_spec(objects)
    assert not [one for one in objects if one["metadata"]["name"] == "gpu-tenure-rules"]
    with pytest.raises(StopIteration):
        named(objects, "Service", "gpu-tenure-reaper")


def test_keys_without_their_secret_are_refused(render: Render) -> None:
    """The files would not be there."""
    with pytest.raises(ValueError, match=r"keys counts only with reaper\.alertmanager\.secretName"):
        render({"reaper": {"alertmanager": {"keys": {"token": "token"}}}})


def test_the_service_selects_the_reaper(render: Render) -> None:
    """Alertmanager posts to it."""
    objects = render({"reaper": ALERTS})
    service = named(objects, "Service", "gpu-tenure-reaper")["spec"]
    template = named(objects, "Deployment", "gpu-tenure-reaper")["spec"]["template"]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    ports = {one["name"]: one["containerPort"] for one in template["spec"]["containers"][0]["ports"]}
    assert [(one["port"], ports[one["targetPort"]]) for one in service["ports"]] == [(9443, 9443)]


def test_a_cronjob_has_nobody_to_take_hints(render: Render) -> None:
    """There is no port between its runs; alerts go out all the same."""
    objects = render({"reaper": {**ALERTS, "mode": "CronJob"}})
    assert ("Service", "gpu-tenure-reaper") not in [(one["kind"], one["metadata"]["name"]) for one in objects]
    spec = named(objects, "CronJob", "gpu-tenure-reaper")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    names = {one["name"] for one in spec["containers"][0]["env"]}
    assert "GPU_TENURE_REAPER_ALERTMANAGER_URLS" in names


def test_rules_come_as_an_object_or_as_a_file(render: Render) -> None:
    """The same groups either way, each alert with its runbook."""
    said = {**ONLY_LOW_USAGE, "labels": {"release": "x"}, "runbookURL": "https://docs.example.com/"}
    rule = named(render({"rules": {"kind": "PrometheusRule", **said}}), "PrometheusRule", "gpu-tenure-rules")
    assert rule["metadata"]["labels"]["release"] == "x"
    config = named(
        render({"rules": {"kind": "ConfigMap", "namespace": "monitoring", **said}}),
        "ConfigMap",
        "gpu-tenure-rules",
    )
    assert config["metadata"]["namespace"] == "monitoring"
    assert yaml.safe_load(config["data"]["gpu-tenure.yaml"]) == rule["spec"]
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"] if "alert" in one]
    assert {one["alert"] for one in alerts} == {"LowGPUUsagePodDetected", "GPULowUsagePodDetected"}
    for one in alerts:
        assert {"summary", "description", "runbook_url"} <= set(one["annotations"])
        assert one["annotations"]["runbook_url"] == f"https://docs.example.com/{one['alert']}.md"


def test_long_windows_come_by_exporter(render: Render) -> None:
    """Only those that are chosen, and each that is known can be."""
    names = [source.name for source in SOURCES]
    rules = {"kind": "PrometheusRule", **ONLY_LOW_USAGE, "lowUsage": False}
    for chosen in ([], ["dcgm"], names):
        rule = named(
            render({"rules": {**rules, "longWindows": chosen}}), "PrometheusRule", "gpu-tenure-rules"
        )
        found = [one["name"] for one in rule["spec"]["groups"]]
        assert found == [f"gpu-tenure-long-windows-{name}" for name in chosen]


def test_promtool_finds_the_rules_right(render: Render, tmp_path: Path) -> None:
    """It checks what the chart renders, and plays exporters of every kind against it."""
    every = {"kind": "PrometheusRule", **ONLY_LOW_USAGE, "longWindows": [source.name for source in SOURCES]}
    rendered = named(render({"rules": every}), "PrometheusRule", "gpu-tenure-rules")
    for group in rendered["spec"]["groups"]:
        for rule in group["rules"]:
            # Where the page lies is tested above.
            rule.get("annotations", {}).pop("runbook_url", None)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rendered["spec"]))
    (tmp_path / "cases.yaml").write_text(CASES.read_text())
    promtool = ensure(os.environ, ["promtool"]).path("promtool")
    for argv in (["check", "rules", "--lint-fatal", "rules.yaml"], ["test", "rules", "cases.yaml"]):
        done = subprocess.run(
            [promtool, *argv], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
