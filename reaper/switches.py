"""Which switch decides how far the reaper goes: terms, namespace, profile, flag, pause or brake; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from policy.holding import ceiling
from policy.keys import Enforcement
from policy.profile import Profile
from policy.terms import Action
from policy.verdicts import Reason

CONFIG_MAP = "gpu-tenure-switches"
PROFILE = "profile"
DRY_RUN = "dry-run"
EXCLUDED = "excluded-namespaces"


class Switch(StrEnum):
    """What decides."""

    TERMS = "terms"
    NAMESPACE = "namespace"
    PROFILE = "profile"
    FLAG = "flag"
    PAUSE = "pause"
    BRAKE = "brake"


HOLDS = {Reason.PAUSED: Switch.PAUSE, Reason.BRAKE: Switch.BRAKE}
OF_NAMESPACE = frozenset({Reason.OPTED_OUT, Reason.EXCLUDED, Reason.DRY_RUN})


class Switches(Struct, frozen=True, kw_only=True):
    """The switches of an installation; None where nobody could read them.

    Attributes:
        profile: How far the installation goes.
        dry_run: Whether the reaper only says what it would do.
        excluded_namespaces: Namespaces that it leaves alone.
    """

    profile: Profile | None = None
    dry_run: bool | None = None
    excluded_namespaces: tuple[str, ...] | None = None


def switches_of(data: Mapping[str, str]) -> Switches:
    """Reads the switches as the chart writes them; what cannot be read is None."""
    known = {profile.value: profile for profile in Profile}
    excluded = data.get(EXCLUDED)
    return Switches(
        profile=known.get(data.get(PROFILE, "")),
        dry_run={"true": True, "false": False}.get(data.get(DRY_RUN, "")),
        excluded_namespaces=None if excluded is None else tuple(filter(None, excluded.split(","))),
    )


def decides(
    action: Action,
    enforcement: Enforcement,
    switches: Switches,
    skip: Reason | None = None,
    hold: Reason | None = None,
) -> tuple[Switch, Action]:
    """Gives the switch that decides, and the most that may be done; the first of those that say the same.

    `action` is that of the terms. A pause or the brake decides only where something could be done.
    """
    if skip in OF_NAMESPACE:
        return Switch.NAMESPACE, Action.OBSERVE
    if skip is not None and skip is not Reason.SNOOZED:
        return Switch.TERMS, Action.OBSERVE
    every = Profile.ENFORCE
    limits = [
        (Switch.TERMS, action),
        (Switch.NAMESPACE, ceiling(Action.STOP, enforcement, every, dry_run=False)),
        (
            Switch.PROFILE,
            ceiling(Action.STOP, Enforcement.ENABLED, switches.profile or every, dry_run=False),
        ),
        (Switch.FLAG, ceiling(Action.STOP, Enforcement.ENABLED, every, dry_run=bool(switches.dry_run))),
    ]
    switch, most = min(limits, key=lambda one: one[1].rank)
    if most is not Action.OBSERVE and hold in HOLDS:
        return HOLDS[hold], Action.OBSERVE
    return switch, most
