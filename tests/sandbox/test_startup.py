"""A start that fails says why and leaves nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sandbox.children import PREFIX, ChildError
from sandbox.cluster import Sandbox, SandboxOptions

pytestmark = pytest.mark.real


def test_a_part_that_ends_at_once_is_named_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the time-out of what can never be ready."""
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho disk on fire >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = SandboxOptions(environ={**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)})
    with pytest.raises(ChildError, match=r"(?s)etcd ended by itself \(exit code 7\).*disk on fire"):
        Sandbox.start(options)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
