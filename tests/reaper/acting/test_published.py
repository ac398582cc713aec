"""What a chart publishes of how its reaper plans, and what is assumed where it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from reaper.limits import Limits
from reaper.published import KEY, PUBLISHED, Planning, planning_of
from reaper.settings import ENV_PREFIX, ReaperSettings
from reaper.stopways import Ways, ways_of

JOB_SET = {
    "apiGroup": "jobset.x-k8s.io",
    "kind": "JobSet",
    "resource": "jobsets",
    "field": "/spec/suspend",
    "value": True,
}


def published(**values: str) -> Planning:
    """Reads variables that a chart has written."""
    names = {f"{ENV_PREFIX}{name.upper()}": value for name, value in values.items()}
    return planning_of({"profile": "enforce", KEY: json.dumps(names)})


CASES: list[Any] = [
    pytest.param({}, {}, id="nothing but defaults"),
    pytest.param({"stop": "false"}, {"ways": Ways()}, id="nothing is stopped"),
    pytest.param(
        {"stop": "true", "stop_kinds": json.dumps([JOB_SET])},
        {"ways": ways_of([JOB_SET])},
        id="a kind of their own",
    ),
    pytest.param({"on_pressure": "true"}, {"on_pressure": True}, id="only while pods wait"),
    pytest.param({"quiet": "0s"}, {"quiet_seconds": 0}, id="no quiet time"),
    pytest.param(
        {"snooze": "1h", "actions_per_owner": "3"},
        {"limits": structs.replace(Limits(), snooze_seconds=3600, actions_per_owner=3)},
        id="limits",
    ),
    pytest.param({"some_day": "x", "cycle": "1m"}, {}, id="what a newer chart publishes beside"),
]


@pytest.mark.parametrize(("values", "changed"), CASES)
def test_what_is_published_is_what_holds(values: dict[str, str], changed: dict[str, Any]) -> None:
    """The rest is the default, which the reaper takes too."""
    assert published(**values) == structs.replace(Planning(), **changed)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"profile": "enforce"}, "not published"),
        ({KEY: "["}, "cannot be read"),
        ({KEY: '{"GPU_TENURE_REAPER_STOP": true}'}, "cannot be read"),
        ({KEY: '{"GPU_TENURE_REAPER_SNOOZE": "soon"}'}, "cannot be read: "),
    ],
    ids=["an older chart", "no JSON", "no texts", "no duration"],
)
def test_what_is_assumed_is_said(data: dict[str, str], problem: str) -> None:
    """One wrong value makes none of the others half right."""
    found = planning_of(data)
    assert problem in found.problem
    assert structs.replace(found, problem="") == Planning()


def test_only_settings_are_published() -> None:
    """All of them have a name that the reaper knows."""
    assert set(ReaperSettings.model_fields) >= PUBLISHED
    for name in PUBLISHED:
        assert published(**{name: "?"}).problem
