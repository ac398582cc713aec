"""How far an installation goes, as the administrator chose; knows no policies."""

from __future__ import annotations

from enum import StrEnum

from policy.keys import Enforcement


class Profile(StrEnum):
    """The three profiles of an installation."""

    OBSERVE = "observe"
    WARN = "warn"
    ENFORCE = "enforce"


def is_enforcing(profile: Profile, enforcement: Enforcement) -> bool:
    """Whether deadlines are written and pods may be refused in a namespace."""
    return profile is Profile.ENFORCE and enforcement is Enforcement.ENABLED
