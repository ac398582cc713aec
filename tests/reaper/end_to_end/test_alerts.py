"""Alerts on the real parts: out to people by the example's routes."""

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
from sandbox.deadline import utc_now
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
