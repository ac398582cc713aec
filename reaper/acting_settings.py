"""The settings that bound what is done, and say how; must not know where values come from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from reaper.limits import BrakeLimits, Limits
from reaper.stopways import Ways, ways_of
from runtime.gpu_resources import read_rows
from runtime.settings import Seconds, Settings

Percent = Annotated[int, Field(ge=1, le=100)]
BrakePercent = Annotated[int, Field(ge=1, le=101)]
"""A share that holds everything; 101 is never reached and so switches the condition off."""

Count = Annotated[int, Field(ge=1)]
Span = Annotated[Seconds, Field(ge=1)]
Wait = Annotated[Seconds, Field(ge=0)]
EXAMPLE = (
    '[{"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "resource": "jobsets", '
    '"field": "/spec/suspend", "value": true}]'
)
_LIMITS = Limits()
_BRAKE = BrakeLimits()


def _checked(rows: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Refuses rows that say no way to stop anything."""
    ways_of(rows, "row")
    return rows


StopRows = Annotated[tuple[dict[str, Any], ...], BeforeValidator(read_rows), AfterValidator(_checked)]
"""Rows as `reaper.stopways.parse_way` reads them."""


class ActingSettings(Settings):
    """What an administrator may choose about warnings and actions."""

    idle_verdicts: Count = Field(
        _LIMITS.idle_verdicts, description="Idle verdicts in a row before a warning", examples=["2"]
    )
    snooze: Span = Field(_LIMITS.snooze_seconds, description="The longest snooze from now", examples=["24h"])
    actions_per_cycle: Count = Field(
        _LIMITS.actions_per_cycle, description="Actions in one cycle", examples=["5"]
    )
    actions_per_namespace: Count = Field(
        _LIMITS.actions_per_namespace, description="Actions in one namespace and cycle", examples=["2"]
    )
    actions_per_owner: Count = Field(
        _LIMITS.actions_per_owner, description="Actions on one root owner within owner-span", examples=["1"]
    )
    owner_span: Span = Field(_LIMITS.owner_seconds, description="Span of actions-per-owner", examples=["24h"])
    device_percent: Percent = Field(
        _LIMITS.device_percent,
        description="Share of the judged devices taken within device-span (or the largest candidate)",
        examples=["10"],
    )
    device_span: Span = Field(_LIMITS.device_seconds, description="Span of device-percent", examples=["1h"])
    budget_wait: Span = Field(
        _LIMITS.budget_seconds, description="Wait after a PodDisruptionBudget refused", examples=["5m"]
    )
    refusal_wait: Span = Field(
        _LIMITS.refusal_seconds,
        description="Wait after a refusal that a retry cannot change",
        examples=["1h"],
    )
    brake_idle_percent: BrakePercent = Field(
        _BRAKE.idle_percent,
        description="Hold when this share of the judged devices turns idle",
        examples=["20"],
    )
    brake_idle_minimum: Count = Field(
        _BRAKE.idle_minimum, description="The same, but only from this many devices on", examples=["8"]
    )
    brake_idle_span: Span = Field(
        _BRAKE.idle_seconds, description="The same, within this time", examples=["15m"]
    )
    brake_unknown_percent: BrakePercent = Field(
        _BRAKE.unknown_percent,
        description="Hold when this share of the judged devices is Unknown",
        examples=["30"],
    )
    brake_fall_percent: BrakePercent = Field(
        _BRAKE.fall_percent, description="Hold when the judged devices fall by this share", examples=["20"]
    )
    brake_fall_span: Span = Field(
        _BRAKE.fall_seconds, description="The same, within this time", examples=["1h"]
    )
    brake_release: Wait = Field(
        _BRAKE.release_seconds,
        description="Release when the cause has been away for this long",
        examples=["15m"],
    )
    stop: bool = Field(
        True, description="Stop owners where the terms say so; otherwise such pods are only warned about"
    )
    stop_kinds: StopRows = Field(
        (),
        description="Further kinds that can be stopped, as JSON; see docs/stopping.md",
        examples=[EXAMPLE],
    )
    on_pressure: bool = Field(
        False, description="Act only while GPU pods wait because no node has devices for them"
    )
    backfill: bool = Field(True, description="Give terms to pods that were admitted without")
    backfill_deadline: bool = Field(
        False, description="Give deadlines too to pods and Jobs that were admitted without"
    )

    def ways(self) -> Ways:
        """Gives how owners are stopped; an empty table if they are not."""
        return ways_of(self.stop_kinds) if self.stop else Ways()

    def limits(self) -> Limits:
        """Gives the numbers that bound planning."""
        return Limits(
            actions_per_cycle=self.actions_per_cycle,
            actions_per_namespace=self.actions_per_namespace,
            actions_per_owner=self.actions_per_owner,
            owner_seconds=self.owner_span,
            device_percent=self.device_percent,
            device_seconds=self.device_span,
            idle_verdicts=self.idle_verdicts,
            snooze_seconds=self.snooze,
            budget_seconds=self.budget_wait,
            refusal_seconds=self.refusal_wait,
        )

    def brake_limits(self) -> BrakeLimits:
        """Gives the numbers of the brake."""
        return BrakeLimits(
            idle_percent=self.brake_idle_percent,
            idle_minimum=self.brake_idle_minimum,
            idle_seconds=self.brake_idle_span,
            unknown_percent=self.brake_unknown_percent,
            fall_percent=self.brake_fall_percent,
            fall_seconds=self.brake_fall_span,
            release_seconds=self.brake_release,
        )
