"""Alerts that make the reaper look at a pod: from a rule to an eviction, on the real Alertmanager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from sandbox.balancer import Backend, Balancer
from sandbox.history import write_history
from sandbox.install import Installation
from tests.reaper.end_to_end.sinks import LOOPBACK

EXAMPLES = Path(__file__).parents[3] / "manifests" / "examples" / "alertmanager"


class Hints:
    """The way from a rule of the chart to the reaper: Prometheus and Alertmanager of the sandbox."""

    def __init__(self, reaping: Installation, token_file: Path) -> None:
        self.sandbox = reaping.sandbox
        self.token_file = token_file
        self.argument = f"--receiver-token-file={token_file}"

    def rules(self) -> str:
        """Writes the rules that the chart renders; gives the file."""
        chart = str(EXAMPLES.parents[1] / "chart")
        only = ("--set=rules.kind=PrometheusRule", "--show-only=templates/rules/rules.yaml")
        rendered = self.sandbox.helm("template", "gpu-tenure", chart, *only).stdout
        path = self.token_file.with_name("rules.yaml")
        path.write_text(yaml.safe_dump(yaml.safe_load(rendered)["spec"]))
        return str(path)

    def connect(self, url: str) -> None:
        """Has Prometheus evaluate the rules, and Alertmanager route them by the example's route.

        What still holds is repeated after seconds instead of half an hour.
        """
        self.route(url, repeat_interval="5s")
        self.sandbox.configure_prometheus(rule_files=[self.rules()])

    def route(self, url: str, **times: str) -> None:
        """Has Alertmanager route hints to the reaper by the example's route."""
        config = yaml.safe_load((EXAMPLES / "alertmanager.yml").read_text())
        route = config["route"]["routes"][0] | {"group_wait": "200ms", "group_interval": "1s", **times}
        (receiver,) = (one for one in config["receivers"] if one["name"] == route["receiver"])
        (webhook,) = receiver["webhook_configs"]
        webhook["url"] = f"{url}/alerts"
        webhook["http_config"]["authorization"]["credentials_file"] = str(self.token_file)
        routes = {"receiver": "nobody", "routes": [route]}
        text = yaml.safe_dump({"route": routes, "receivers": [{"name": "nobody"}, receiver]})
        (self.sandbox.dir / "alertmanager.yml").write_text(text)
        requests.post(f"{self.sandbox.alertmanager_url}/-/reload", timeout=30).raise_for_status()

    def fire(self, **labels: str) -> None:
        """Posts an alert to Alertmanager, as Prometheus does."""
        url = f"{self.sandbox.alertmanager_url}/api/v2/alerts"
        requests.post(url, json=[{"labels": labels}], timeout=5).raise_for_status()

    def firing(self, **labels: str) -> bool:
        """Says whether Alertmanager has an alert with these labels."""
        found = requests.get(f"{self.sandbox.alertmanager_url}/api/v2/alerts", timeout=5).json()
        return any(labels.items() <= one["labels"].items() for one in found)

    def failed(self) -> float:
        """Gives how often Alertmanager was refused."""
        text = requests.get(f"{self.sandbox.alertmanager_url}/metrics", timeout=5).text
        name = 'alertmanager_notification_requests_failed_total{integration="webhook"'
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def disconnect(self) -> None:
        """Puts Prometheus and Alertmanager back."""
        self.sandbox.configure_prometheus(rule_files=[])
        self.sandbox.configure_alertmanager("")


@pytest.fixture
def hints(reaping: Installation, tmp_path: Path) -> Iterator[Hints]:
    """The way from a rule to the reaper, not yet connected."""
    token = tmp_path / "token"
    token.write_text("hint-token")
    hints = Hints(reaping, token)
    yield hints
    hints.disconnect()


SHARE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}


@pytest.mark.parametrize(
    ("rule", "limits"),
    [
        pytest.param("GPULowUsagePodDetected", None, id="dcgm-exporter"),
        pytest.param("LowGPUUsagePodDetected", SHARE, id="HAMi"),
    ],
)
def test_a_rule_leads_to_an_eviction(
    stage: Any, start_reaper: Callable[..., Any], hints: Hints, rule: str, limits: dict[str, int] | None
) -> None:
    """Rule, Prometheus, Alertmanager, receiver, warning and, by what Alertmanager repeats, the eviction."""
    reaper = start_reaper(hints.argument, "--cycle=60s", "--idle-verdicts=1")
    reaper.wait_first_cycle()
    hints.connect(reaper.url)
    stage.pod("notebook", limits=limits, annotations={"sandbox.gpu-tenure.io/started-ago": "70m"})
    write_history(stage.sandbox, minutes=62, namespaces=[stage.namespace])
    stage.wait_warned("notebook")
    # No cycle was due by itself: the alert has brought the second one, which may not be counted yet.
    assert hints.firing(alertname=rule, namespace=stage.namespace, pod="notebook")
    looked = reaper.value("gpu_tenure_reaper_hints_total", result="looked")
    assert looked >= 1
    assert reaper.value("gpu_tenure_reaper_cycles_total", result="complete") <= 2
    found = stage.find("notebook")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    # The next cycle is due in a minute; a repeated alert brings one when the grace is over.
    stage.wait_gone("notebook", seconds=40)
    assert reaper.value("gpu_tenure_reaper_hints_total", result="looked") > looked


def test_a_hint_that_meets_a_follower_comes_to_the_leader(
    start_reaper: Callable[..., Any], hints: Hints
) -> None:
    """Alertmanager sends it again within seconds, by a connection for which the Service chooses anew."""

    def counted(reaper: Any) -> float:
        return float(reaper.value("gpu_tenure_reaper_hints_total", result="unknown"))

    api = hints.sandbox.api()
    leader = start_reaper(hints.argument, "--identity=hinted-leader", name="leader")
    leader.wait_first_cycle()
    follower = start_reaper(hints.argument, "--identity=hinted-follower", name="follower")
    behind = [Backend(LOOPBACK, int(one.url.rpartition(":")[2])) for one in (follower, leader)]
    with Balancer() as service:
        service.set_backends(behind[:1])
        hints.route(service.url(scheme="http"))
        before = hints.failed()
        hints.fire(alertname="LowGPUUsagePodDetected", podnamespace="none", podname="nobody")
        api.wait(lambda: hints.failed() > before, 20, "the follower has refused it")
        service.set_backends(behind)
        api.wait(lambda: counted(leader) == 1, 20, "the leader has it")
        assert counted(follower) == 0
