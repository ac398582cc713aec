"""A user of their own, for tests of what there is one of per user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.binaries import ensure
from sandbox.session import down


@pytest.fixture
def environ(tmp_path: Path, kubernetes: str) -> Iterator[dict[str, str]]:
    """A user of their own, who has the built programs of this one, of the chosen release."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for program, path in ensure(os.environ, kubernetes=kubernetes).paths.items():
        (assets / program).symlink_to(path)
    made = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "KUBEBUILDER_ASSETS": str(assets)}
    yield made
    down(made)
