"""What the chart's values are to the components' settings, and what of them is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quota.settings import ENV_PREFIX as QUOTA_PREFIX
from quota.settings import QuotaSettings
from reaper.published import KEY as PUBLISHED_KEY
from reaper.published import PUBLISHED, Planning, planning_of
from reaper.settings import ENV_PREFIX as REAPER_PREFIX
from reaper.settings import ReaperSettings
from runtime.settings import load
from tests.manifests.rendered import environment, of_kind
from webhook.settings import ENV_PREFIX as WEBHOOK_PREFIX
from webhook.settings import WebhookSettings

Render = Callable[..., list[dict[str, Any]]]


SPANS = {"budget_wait", "device_span", "owner_span", "quiet", "refusal_wait", "snooze"}
NUMBERS = {
    f"{REAPER_PREFIX}{name.upper()}": "7s" if name in SPANS else "7"
    for name in PUBLISHED - {"stop", "stop_kinds", "on_pressure"}
}
JOB_SET = {
    "apiGroup": "jobset.x-k8s.io",
    "kind": "JobSet",
    "resource": "jobsets",
    "field": "/spec/suspend",
    "value": True,
}


def test_the_webhook_reads_its_environment(render: Render) -> None:
    """Every variable is a setting, and says what the values say."""
    values = {"profile": "warn", "trustedControllers": ["a", "b"], "webhook": {"logLevel": "debug"}}
    settings = load(WebhookSettings, {}, None, WEBHOOK_PREFIX, environment(render(values), "webhook"))
    assert settings.profile.value == "warn"
    assert settings.trusted_controllers == ("a", "b")
    assert settings.log_level == "debug"
    assert settings.tls_cert == Path("/tls/tls.crt")


def test_the_reaper_reads_its_environment(render: Render) -> None:
    """Every variable is a setting, and says what the values say."""
    more = {"GPU_TENURE_REAPER_ACTIONS_PER_CYCLE": 7, "GPU_TENURE_REAPER_CYCLE": "30s"}
    values = {
        "profile": "enforce",
        "reaper": {
            "prometheusURL": "http://p:9090",
            "dryRun": False,
            "env": more,
            "sources": [{"name": "amd", "like": "amd", "metricPrefix": "amd_"}],
        },
    }
    settings = load(ReaperSettings, {}, None, REAPER_PREFIX, environment(render(values), "reaper"))
    assert settings.profile.value == "enforce"
    assert settings.prometheus_url == "http://p:9090"
    assert settings.dry_run is False
    assert settings.actions_per_cycle == 7
    assert [row["name"] for row in settings.sources] == ["amd"]
    assert settings.cycle == 30


HOW_IT_PLANS: list[Any] = [
    pytest.param({}, id="the defaults"),
    pytest.param(
        {"stop": {"enabled": False}, "onPressure": True}, id="nothing is stopped, and only on pressure"
    ),
    pytest.param({"stop": {"kinds": [JOB_SET]}}, id="kinds of their own"),
    pytest.param({"env": NUMBERS}, id="numbers"),
    pytest.param({"env": {f"{REAPER_PREFIX}STOP": "false"}}, id="a variable that takes the place of a value"),
]


@pytest.mark.parametrize("reaper", HOW_IT_PLANS)
def test_what_is_published_is_what_the_reaper_does(render: Render, reaper: dict[str, Any]) -> None:
    """`status` plans with the settings of the process."""
    objects = render({"reaper": {"prometheusURL": "http://p:9090", **reaper}})
    settings = load(ReaperSettings, {}, None, REAPER_PREFIX, environment(objects, "reaper"))
    found = planning_of(of_kind(objects, "ConfigMap")["gpu-tenure-switches"]["data"])
    assert found == Planning(
        limits=settings.limits(),
        ways=settings.ways(),
        on_pressure=settings.on_pressure,
        quiet_seconds=settings.quiet,
    )


def test_nothing_else_of_the_environment_is_published(render: Render) -> None:
    """Everybody may read it, and people write into `env` what they like."""
    secret = {f"{REAPER_PREFIX}PROMETHEUS_HEADERS": '{"Authorization": "x"}', f"{REAPER_PREFIX}CONTACT": "y"}
    every = {f"{REAPER_PREFIX}{name.upper()}": "7" for name in PUBLISHED}
    switches = of_kind(render({"reaper": {"env": {**secret, **every}}}), "ConfigMap")["gpu-tenure-switches"]
    assert set(json.loads(switches["data"][PUBLISHED_KEY])) == set(every)


def test_a_single_run_has_no_quiet_time(render: Render) -> None:
    """Which a CronJob's are, whatever the environment says."""
    values = {"mode": "CronJob", "env": {f"{REAPER_PREFIX}QUIET": "20m"}}
    switches = of_kind(render({"reaper": values}), "ConfigMap")["gpu-tenure-switches"]
    assert planning_of(switches["data"]).quiet_seconds == 0


def test_the_quota_component_reads_its_environment(render: Render) -> None:
    """Every variable is a setting, and says what the values say."""
    values = {"quota": {"enabled": True, "reservation": "2m"}, "excludedNamespaces": ["a"]}
    environ = environment(render(values, "elsewhere"), "quota")
    settings = load(QuotaSettings, {}, None, QUOTA_PREFIX, environ)
    assert (settings.reservation, settings.settle) == (120, 6)
    assert settings.lease_namespace == "elsewhere"
    assert settings.excluded_namespaces == ("a", "elsewhere")


def test_keeper_and_webhook_settle_by_one_time(render: Render) -> None:
    """What the one waits for is what the other may not know."""
    objects = render({"quota": {"enabled": True, "settle": "20s"}})
    keeper = load(QuotaSettings, {}, None, QUOTA_PREFIX, environment(objects, "quota"))
    webhook = load(WebhookSettings, {}, None, WEBHOOK_PREFIX, environment(objects, "webhook"))
    assert keeper.settle == webhook.quota_settle == 20
