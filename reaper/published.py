"""How the reaper of an installation plans, as the chart publishes it; must not know who reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import Field

from policy import defaults
from policy.errors import InvalidError
from reaper.acting_settings import ActingSettings, Wait
from reaper.limits import Limits
from reaper.settings import ENV_PREFIX
from reaper.stopways import Ways, ways_of
from runtime.settings import load

KEY = "reaper-settings"
"""The key of the ConfigMap of switches: variables of the reaper's environment, as JSON."""

PUBLISHED = frozenset(
    {
        "actions_per_cycle",
        "actions_per_namespace",
        "actions_per_owner",
        "budget_wait",
        "device_percent",
        "device_span",
        "idle_verdicts",
        "on_pressure",
        "owner_span",
        "quiet",
        "refusal_wait",
        "snooze",
        "stop",
        "stop_kinds",
    }
)
"""The settings that planning depends on. The chart publishes these alone."""


class _Settings(ActingSettings):
    quiet: Wait = Field(defaults.QUIET_SECONDS, description="As the reaper's", examples=["10m"])


class Planning(Struct, frozen=True, kw_only=True):
    """How a reaper plans.

    Attributes:
        limits: The numbers that bound it.
        ways: How it stops owners.
        on_pressure: Whether it acts only while GPU pods wait for devices.
        quiet_seconds: For how long it does nothing new after a start.
        problem: Why all of this is the defaults; empty if it was published.
    """

    limits: Limits = Limits()
    ways: Ways = ways_of(())
    on_pressure: bool = False
    quiet_seconds: int = defaults.QUIET_SECONDS
    problem: str = ""


def planning_of(data: Mapping[str, str]) -> Planning:
    """Reads what a chart has published; gives the defaults, and why, where that cannot be read."""
    text = data.get(KEY)
    if text is None:
        return Planning(problem="not published by this installation")
    try:
        given = msgspec.json.decode(text, type=dict[str, str])
        settings = load(_Settings, {}, None, ENV_PREFIX, _known(given))
    except msgspec.DecodeError as error:
        return Planning(problem=f"cannot be read: {error}")
    except InvalidError as error:
        return Planning(problem=f"cannot be read: {error.errors[0]}")
    return Planning(
        limits=settings.limits(),
        ways=settings.ways(),
        on_pressure=settings.on_pressure,
        quiet_seconds=settings.quiet,
    )


def _known(given: Mapping[str, Any]) -> dict[str, str]:
    """Leaves out what a newer chart may publish beside."""
    return {
        name: value for name, value in given.items() if name.removeprefix(ENV_PREFIX).lower() in PUBLISHED
    }
