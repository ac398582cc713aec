"""Builds the Go programs of the benchmark once into the user's cache; does not run any of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.binaries import cache_dir
from sandbox.progress import Progress
from sandbox.toolchain import find_go

MODULE = Path(__file__).parent / "comparators"
GO_RELEASE = (1, 26)
_GO = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
PROGRAMS = ("controller_runtime", "plain", "load", "create")


class BuildError(RuntimeError):
    """A comparator could not be built; the message holds the end of the compiler's output."""


@dataclass(frozen=True)
class Programs:
    """Where the programs lie."""

    folder: Path

    def path(self, name: str) -> str:
        """Gives the path of a program as text, ready for an argument list."""
        return str(self.folder / name)


def ensure_programs(
    environ: Mapping[str, str], progress: Progress, names: Sequence[str] = PROGRAMS
) -> Programs:
    """Gives the programs, built from this checkout's sources; what the cache holds is not built again."""
    folder = cache_dir(environ) / "bench" / fingerprint(MODULE)
    missing = [name for name in names if not os.access(folder / name, os.X_OK)]
    for done, name in enumerate(missing):
        with progress.step(f"building the comparator {name}", len(missing) - done - 1, None):
            _build(environ, name, folder)
    return Programs(folder)


def fingerprint(module: Path) -> str:
    """Names a state of the sources: a hash over their names and contents."""
    digest = hashlib.sha256()
    for path in sorted((*module.glob("go.*"), *module.rglob("*.go"))):
        digest.update(f"{path.relative_to(module)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(environ: Mapping[str, str], name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{name}.{os.getpid()}"
    go = find_go(environ, cache_dir(environ), GO_RELEASE)
    command = [str(go), "build", "-ldflags", "-s -w", "-o", str(partial), f"./{name}"]
    env = {**environ, **_GO}
    ran = subprocess.run(command, cwd=MODULE, env=env, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        partial.unlink(missing_ok=True)
        msg = f"building the comparator {name} failed:\n{ran.stderr.strip()[-2000:]}"
        raise BuildError(msg)
    partial.replace(folder / name)
