"""Which Kubernetes releases are called supported."""

from __future__ import annotations

import pytest

from runtime.versions import NEWEST, OLDEST, Support, compatibility, parse_version
from sandbox.recipes import MODULES_DIR, pinned_version

CASES = [
    pytest.param("v1.36.3", Support.SUPPORTED, "is supported", id="the release of the sandbox"),
    pytest.param("v1.34.0-gke.1100", Support.SUPPORTED, "is supported", id="the oldest, of a vendor"),
    pytest.param("v1.37+", Support.SUPPORTED, "is supported", id="the newest, cut short"),
    pytest.param("v1.38.0", Support.UNTESTED, "newer than this release", id="a newer one"),
    pytest.param("v1.100.1", Support.UNTESTED, "newer than this release", id="numbers are not text"),
    pytest.param("v1.33.9", Support.UNTESTED, "may work", id="one that could work"),
    pytest.param("v1.29.15", Support.TOO_OLD, "needs 1.30 or newer", id="one without our guards"),
    pytest.param("", Support.UNKNOWN, "tells no version", id="no version"),
    pytest.param("v1", Support.UNKNOWN, "tells no version", id="half a version"),
]


@pytest.mark.parametrize(("version", "support", "said"), CASES)
def test_every_release_has_one_answer(version: str, support: Support, said: str) -> None:
    """Supported, untested, too old or unknown, each with a sentence."""
    found = compatibility(version)
    assert found.support is support
    assert said in found.message


def test_what_is_supported_is_what_can_be_started() -> None:
    """The oldest and the newest supported release are pinned for the sandbox."""
    folders = [path for path in MODULES_DIR.glob("kubernetes*") if path.is_dir()]
    pinned = {parse_version(pinned_version(folder, "k8s.io/kubernetes")) for folder in folders}
    known = [version for version in pinned if version is not None]
    assert (min(known), max(known)) == (OLDEST, NEWEST)
