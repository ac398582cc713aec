"""Alerts on the real parts: out to people by the example's routes, and from a rule back to the reaper."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from reaper.alertmanager import AlertmanagerOptions, Courier
from reaper.alerts import AlertName, alert_of
from sandbox.balancer import Backend, Balancer
from sandbox.deadline import utc_now
from sandbox.history import write_history
from sandbox.install import Installation
from sandbox.startup import answers
from tests.reaper.end_to_end.sinks import LOOPBACK, Mail, Slack

EXAMPLES = Path(__file__).parents[3] / "manifests" / "examples" / "alertmanager"
GRACE = {
    "labels": {"gpu-tenure.io/idle-grace": "10s"},
    "annotations": {
        "gpu-tenure.io/asked": "idle-grace",
        "gpu-tenure.io/requested-by": "ana@example.org",
    },
}


class Routing:
    """An Alertmanager with the example's routes, which may start late."""

    def __init__(self, reaping: Installation, slack: Slack, mail: Mail) -> None:
        self.sandbox = reaping.sandbox
        self.slack, self.mail = slack, mail
        self.port = self.sandbox.free_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.folder = self.sandbox.dir / f"alertmanager-{self.port}"
        self.name = f"alertmanager-{self.port}"

    def start(self, *, plain: bool = False) -> None:
        """Starts it with addresses and times of the test in place of the example's; the rest stays.

        `plain` takes the example as it is, and sends nothing: none of its addresses exists.
        """
        self.folder.mkdir(exist_ok=True)
        text = (EXAMPLES / "alertmanager.yml").read_text()
        (self.folder / "alertmanager.yml").write_text(text if plain else self._adapted(text))
        argv = [
            self.sandbox.layout.binaries.path("alertmanager"),
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--cluster.listen-address=",
        ]
        self.sandbox.spawn(self.name, argv, stop_seconds=0)
        self.wait(lambda: answers(f"{self.url}/-/ready"), "Alertmanager is ready")

    def _adapted(self, text: str) -> str:
        config = yaml.safe_load(text)
        config["global"] = {
            "smtp_smarthost": self.mail.address,
            "smtp_from": config["global"]["smtp_from"],
            "smtp_require_tls": False,
        }
        for route in config["route"]["routes"]:
            route |= {"group_wait": "200ms", "group_interval": "1s"}
        for receiver in config["receivers"]:
            for slack in receiver.get("slack_configs", ()):
                del slack["api_url_file"]
                slack["api_url"] = self.slack.url
        return yaml.safe_dump(config)

    def firing(self, **labels: str) -> list[dict[str, Any]]:
        """Gives the alerts that hold, with these labels."""
        found = requests.get(f"{self.url}/api/v2/alerts", timeout=5).json()
        return [one for one in found if labels.items() <= one["labels"].items()]

    def wait(self, done: Callable[[], object], what: str) -> None:
        """Waits for something."""
        self.sandbox.api().wait(done, 30, what)


@pytest.fixture
def routing(reaping: Installation) -> Iterator[Routing]:
    """Alertmanager, not yet started, with a Slack and a mail server."""
    with Slack() as slack, Mail() as mail:
        routing = Routing(reaping, slack, mail)
        yield routing
        if routing.sandbox.running(routing.name):
            routing.sandbox.kill(routing.name)


def test_people_hear_of_warning_halfway_and_action(
    stage: Any, start_reaper: Callable[..., Any], routing: Routing
) -> None:
    """By Slack and by mail; an Alertmanager that comes late hears what still holds."""
    stage.pod("notebook", **GRACE)
    stage.history()
    reaper = start_reaper(f"--alertmanager-urls={routing.url}", "--alert-labels=cluster=north")
    stage.wait_warned("notebook")
    reaper.wait_cycles(1)
    assert reaper.value("gpu_tenure_reaper_alerts_total", result="sent") == 0
    routing.start()
    routing.wait(lambda: len(routing.slack.texts()) >= 2, "both halves of the grace are told")
    stage.wait_gone("notebook")
    routing.wait(
        lambda: any("GPUTenureReclaimed" in text for text in routing.slack.texts()), "the eviction is told"
    )
    warnings = [text for text in routing.slack.texts() if "GPUTenureIdleWarning" in text]
    assert len(warnings) == 2
    for text in warnings:
        assert f"{stage.namespace}/notebook" in text
        assert "Will be evicted at" in text
        assert f"kubectl annotate pod notebook -n {stage.namespace}" in text
        assert "Ask in gpu-help." in text
    routing.wait(lambda: len(routing.mail.mails) >= 3, "the mails are there")
    assert {tuple(to) for to, _ in routing.mail.mails} == {("ana@example.org",)}
    assert any("Subject: GPUTenureReclaimed" in mail for _, mail in routing.mail.mails)
    routing.wait(lambda: not routing.firing(alertname="GPUTenureIdleWarning"), "the warning is over")
    (happened,) = routing.firing(alertname="GPUTenureReclaimed")
    assert happened["labels"]["cluster"] == "north"
    assert happened["labels"]["action"] == "evict"
    assert happened["labels"]["owner"] == "Pod/notebook"


async def test_alertmanager_takes_whatever_users_are_called(routing: Routing) -> None:
    """A requester is a label; none is refused, and no other alert with it."""
    routing.start(plain=True)
    names = [
        "ana",
        "<!channel>",
        "{{ .Evil }}",
        'a"b\\c',
        "\u202egro",
        "é" * 500,
        "\ud800",
        "\x00",
        "a\nb",
        "😀",
    ]
    alerts = [
        alert_of(AlertName.IDLE_WARNING, {"pod": f"p-{at}", "requester": name}, {"summary": name}, utc_now())
        for at, name in enumerate(names)
    ]
    courier = Courier(AlertmanagerOptions(routing.url))
    courier.offer(alerts)
    await courier.flush()
    assert {one["labels"]["pod"] for one in routing.firing()} == {f"p-{at}" for at in range(len(names))}


def test_a_single_run_tells_alertmanager_before_it_ends(
    stage: Any, reap_once: Callable[..., int], routing: Routing
) -> None:
    """The first run sees, the second warns and says so, and a later one takes and says so."""
    routing.start()
    stage.pod("notebook")
    stage.history()
    url = f"--alertmanager-urls={routing.url}"
    assert reap_once(url) == 0
    assert not routing.firing()
    assert reap_once(url) == 0
    (warned,) = routing.firing(alertname="GPUTenureIdleWarning")
    assert (warned["labels"]["namespace"], warned["labels"]["pod"]) == (stage.namespace, "notebook")
    routing.wait(lambda: reap_once(url) == 0 and stage.find("notebook") is None, "a later run evicts")
    assert routing.firing(alertname="GPUTenureReclaimed", namespace=stage.namespace)


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


def test_an_alertmanager_that_hangs_keeps_nothing_waiting(
    stage: Any, start_reaper: Callable[..., Any]
) -> None:
    """Cycles, warnings, the eviction and a clean stop go on as ever."""
    with socket.create_server((LOOPBACK, 0)) as silent:
        stage.pod("notebook")
        stage.history()
        url = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        reaper = start_reaper(f"--alertmanager-urls={url}", "--alertmanager-timeout=60s")
        stage.wait_gone("notebook")
        assert reaper.value("gpu_tenure_reaper_alerts_total", result="sent") == 0
        began = time.monotonic()
        stage.sandbox.stop("reaper", 30)
        assert time.monotonic() - began < 5
