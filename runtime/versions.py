"""Which Kubernetes releases are supported; pure, and asks no API server."""

from __future__ import annotations

import enum
import re

import msgspec

NEEDED = (1, 30)
"""ValidatingAdmissionPolicy and matchConditions are stable from here on: nothing works below."""
OLDEST = (1, 34)
NEWEST = (1, 37)
"""The end-to-end tests run on these two and between."""


class Support(enum.StrEnum):
    """What may be expected on a release."""

    SUPPORTED = "supported"
    UNTESTED = "untested"
    TOO_OLD = "too-old"
    UNKNOWN = "unknown"


class VersionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the API server's `/version` that is read."""

    git_version: str = ""


class Compatibility(msgspec.Struct, frozen=True):
    """How far a release is supported, with a sentence for people."""

    support: Support
    message: str


def parse_version(text: str) -> tuple[int, int] | None:
    """Reads major and minor of a version such as `v1.34.4-gke.100` or `v1.36+`; None if it is none."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", text)
    return (int(found[1]), int(found[2])) if found else None


def compatibility(git_version: str) -> Compatibility:
    """Says how far the release that an API server calls itself is supported."""
    version = parse_version(git_version)
    tested = f"tested on {_text(OLDEST)} to {_text(NEWEST)}"
    if version is None:
        return Compatibility(Support.UNKNOWN, f"the API server tells no version ({git_version!r}); {tested}")
    if version < NEEDED:
        lacks = f"gpu-tenure needs {_text(NEEDED)} or newer, whose ValidatingAdmissionPolicies are its guards"
        return Compatibility(Support.TOO_OLD, f"Kubernetes {git_version} is too old: {lacks}")
    if version < OLDEST:
        return Compatibility(Support.UNTESTED, f"Kubernetes {git_version} may work; {tested}")
    if version > NEWEST:
        return Compatibility(
            Support.UNTESTED, f"Kubernetes {git_version} is newer than this release; {tested}"
        )
    return Compatibility(Support.SUPPORTED, f"Kubernetes {git_version} is supported")


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
