"""What concerns a cycle as a whole, and why it may do less than it could; must not know single pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from policy.verdicts import Reason
from reaper.brakes import Brake
from reaper.pause import Pause
from reaper.pressure import Wanted
from reaper.steps import Hold
from reaper.stopways import Ways


class Situation(Struct, frozen=True, kw_only=True):
    """The state of the world around the pods.

    Attributes:
        pause: The switch.
        brake: The brake, after this cycle's sample.
        quiet_until: No new warning and no action before; None for a run of `--once`.
        slow_until: No action before, because the API server asked for it.
        not_before: Pods, by UID, whose action waits for an answer of the API server to age.
        once: True if nothing is remembered between cycles but what is written on pods.
        judged_devices: Devices with a verdict.
        ways: How owners are stopped.
        wanted: Devices that pods wait for, by resource; None if actions do not depend on that.
    """

    pause: Pause
    brake: Brake = Brake()
    quiet_until: datetime | None = None
    slow_until: datetime | None = None
    not_before: Mapping[str, datetime] = {}
    once: bool = False
    judged_devices: int = 0
    ways: Ways = Ways()
    wanted: Wanted | None = None


def holds_of(situation: Situation, now: datetime) -> tuple[Hold, ...]:
    """Gives why this cycle does less than it might, the strongest reason first."""
    holds = []
    if situation.pause.paused:
        until = f" until {situation.pause.until:%Y-%m-%d %H:%MZ}" if situation.pause.until else ""
        holds.append(Hold(Reason.PAUSED, f"paused{until}: {situation.pause.reason}", freezes=True))
    if situation.brake.engaged:
        sentence = situation.brake.sentence or "what engaged the brake is over; it is released soon"
        holds.append(Hold(Reason.BRAKE, sentence, freezes=True))
    if situation.quiet_until is not None and now < situation.quiet_until:
        sentence = f"started a short time ago; quiet until {situation.quiet_until:%H:%M:%SZ}"
        holds.append(Hold(Reason.QUIET_TIME, sentence, freezes=False))
    if situation.wanted is not None and not situation.wanted:
        holds.append(Hold(Reason.NO_PRESSURE, "no GPU pod waits for devices", freezes=False))
    if situation.slow_until is not None and now < situation.slow_until:
        sentence = f"the API server is busy and asked to wait until {situation.slow_until:%H:%M:%SZ}"
        holds.append(Hold(Reason.BACKING_OFF, sentence, freezes=False))
    return tuple(holds)
