"""Whom the example routes tell what: users of their own pods, the reaper of low usage, operators the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from reaper.alert_settings import OWN_LABELS
from reaper.alerts import AlertName
from sandbox.install import CHART

ROUTES = CHART.parent / "examples" / "alertmanager" / "alertmanager.yml"
LOW_USAGE = {"LowGPUUsagePodDetected", "GPULowUsagePodDetected"}


def alerts_of(path: Path) -> list[str]:
    """The names of the alerts in a file of rules."""
    groups = yaml.safe_load(path.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


def receiver_of(alert: str) -> str:
    """Who gets an alert: the receiver of the first route that takes its name, as Alertmanager does it."""
    config: dict[str, Any] = yaml.safe_load(ROUTES.read_text())
    for route in config["route"]["routes"]:
        (matcher,) = route["matchers"]
        found = re.fullmatch(r'alertname =~ "(.+)"', matcher)
        assert found is not None, matcher
        if re.fullmatch(found[1], alert):
            return str(route["receiver"])
    return str(config["route"]["receiver"])


@pytest.mark.parametrize("alert", [name.value for name in AlertName])
def test_users_hear_of_their_own_pods(alert: str) -> None:
    """Everything that the reaper tells."""
    assert receiver_of(alert) == "gpu-channel"


def test_titles_name_labels_by_which_alerts_are_grouped() -> None:
    """Any other would be empty in a message; and no alert has labels that do not exist."""
    text = ROUTES.read_text()
    (grouped,) = (
        route["group_by"]
        for route in yaml.safe_load(text)["route"]["routes"]
        if route["receiver"] == "gpu-channel"
    )
    assert set(re.findall(r"\.GroupLabels\.(\w+)", text)) == {"alertname", "namespace", "owner", "requester"}
    assert {"alertname", "namespace", "owner", "requester"} <= set(grouped) <= OWN_LABELS


@pytest.mark.parametrize("path", sorted(CHART.glob("files/rules/*.yaml")), ids=lambda path: path.stem)
def test_rules_are_told_to_those_who_can_do_something(path: Path) -> None:
    """Low usage to the reaper, all else to those who run it; nothing to nobody."""
    for alert in alerts_of(path):
        assert receiver_of(alert) == ("gpu-tenure" if alert in LOW_USAGE else "gpu-operators"), alert
