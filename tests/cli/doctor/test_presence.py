"""A cluster without an installation is told so once, and checked as far as that makes sense."""

from __future__ import annotations

from typing import Any

import pytest

from cli.doctor.examination import examine
from cli.doctor.facts import Facts, Seen
from cli.doctor.findings import Level
from cli.doctor.presence import CHECK, is_absent
from policy.profile import Profile
from tests.cli.doctor.healthy import (
    absent,
    component,
    configuration,
    definition,
    found,
    guards,
    healthy,
    node,
)
from tests.cli.doctor.wrong import FORBIDDEN

ELSEWHERE = Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), namespace="gpus"))
BY_URL = Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), url="https://webhook.example.com"))


def bad(facts: Facts) -> list[str]:
    """The checks that found something wrong."""
    return [one.check for one in examine(facts) if one.level in {Level.ERROR, Level.WARNING}]


def test_it_is_one_finding() -> None:
    """Nodes, quotas and exporters are looked at all the same."""
    assert bad(absent()) == [CHECK]
    assert {one.group for one in examine(absent())} == {
        "sight",
        "installation",
        "prometheus",
        "exporters",
        "cluster",
    }
    open_nodes = Seen((node("a", tainted=False), node("b", gpus="", tainted=False)))
    assert bad(absent(nodes=open_nodes, git_version="v1.28.0")) == [
        "installation.kubernetes",
        CHECK,
        "cluster.taints",
    ]


def test_metrics_of_a_reaper_that_is_not_there_are_not_missed() -> None:
    """They are where there is one."""
    assert found(absent(), "prometheus.own-metrics") == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        pytest.param({}, "is not installed", id="nothing at all"),
        pytest.param(
            {"definitions": Seen((definition("gpupolicies"),))}, "are left from before", id="definitions stay"
        ),
        pytest.param(
            {"mutating": ELSEWHERE}, "installed in gpus, and not in gpu-tenure-system", id="elsewhere"
        ),
        pytest.param(
            {"mutating": ELSEWHERE, "guards": Seen(guards(Profile.WARN))},
            "installed in gpus",
            id="with guards",
        ),
        pytest.param(
            dict.fromkeys(("mutating", "validating", "guards"), FORBIDDEN),
            "cannot be seen with your rights",
            id="with the rights of a namespace",
        ),
    ],
)
def test_what_is_said_of_an_absent_installation(facts: dict[str, Any], said: str) -> None:
    """With the namespace to look in where one is known."""
    (one,) = found(absent(**facts), CHECK)
    assert said in one.what
    assert (one.todo == "--namespace gpus") is ("gpus" in said)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(absent(deployments=Seen((component("webhook"),))), id="a Deployment is there"),
        pytest.param(absent(guards=Seen(guards(Profile.WARN))), id="guards are left"),
        pytest.param(absent(mutating=BY_URL), id="the webhook runs elsewhere"),
        pytest.param(absent(deployments=FORBIDDEN), id="Deployments may not be read"),
        pytest.param(healthy(), id="all is there"),
    ],
)
def test_an_installation_in_part_is_examined_in_full(facts: Facts) -> None:
    """What is missing of it is then told piece by piece."""
    assert not is_absent(facts)
    assert found(facts, CHECK) == []
