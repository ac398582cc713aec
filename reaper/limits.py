"""The numbers that bound planning, as plain values; must not know where they are configured."""

from __future__ import annotations

from msgspec import Struct

from policy import defaults


class BrakeLimits(Struct, frozen=True, kw_only=True):
    """When a cycle is suspect as a whole.

    Attributes:
        idle_percent: Hold when this share of the judged devices turned idle within `idle_seconds`.
        idle_minimum: … and at least this many devices did.
        idle_seconds: The span in which turning idle counts.
        unknown_percent: Hold when this share of the judged devices is Unknown.
        fall_percent: Hold when the judged devices fell by this share within `fall_seconds`.
        fall_seconds: The span over which the fall is measured.
        release_seconds: Release when the condition has been false for this long.
    """

    idle_percent: int = round(defaults.BRAKE_IDLE_SHARE * 100)
    idle_minimum: int = defaults.BRAKE_IDLE_DEVICES
    idle_seconds: int = defaults.BRAKE_IDLE_SECONDS
    unknown_percent: int = round(defaults.BRAKE_UNKNOWN_SHARE * 100)
    fall_percent: int = round(defaults.BRAKE_FALL_SHARE * 100)
    fall_seconds: int = defaults.BRAKE_FALL_SECONDS
    release_seconds: int = defaults.BRAKE_RELEASE_SECONDS


class Limits(Struct, frozen=True, kw_only=True):
    """How much one reaper may do.

    Attributes:
        actions_per_cycle: Actions in one cycle.
        actions_per_namespace: Actions in one namespace and cycle.
        actions_per_owner: Actions on one root owner within `owner_seconds`; beyond, it is only warned.
        owner_seconds: The span of `actions_per_owner`.
        device_percent: Share of the judged devices that may be taken within `device_seconds`; the largest
            single candidate may always be.
        device_seconds: The span of `device_percent`.
        idle_verdicts: Idle verdicts in a row before a warning.
        snooze_seconds: The longest snooze, from the moment it is seen.
        budget_seconds: Wait after a PodDisruptionBudget refused.
        refusal_seconds: Wait after a refusal that a retry cannot change.
    """

    actions_per_cycle: int = defaults.ACTIONS_PER_CYCLE
    actions_per_namespace: int = defaults.ACTIONS_PER_NAMESPACE
    actions_per_owner: int = 1
    owner_seconds: int = defaults.OWNER_PAUSE_SECONDS
    device_percent: int = round(defaults.HOURLY_SHARE * 100)
    device_seconds: int = 3600
    idle_verdicts: int = defaults.IDLE_VERDICTS_BEFORE_WARNING
    snooze_seconds: int = defaults.SNOOZE_SECONDS
    budget_seconds: int = 300
    refusal_seconds: int = 3600
