"""Finds the programs of the sandbox, or builds them once into the user's cache; starts none of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.progress import Progress
from sandbox.recipes import FURTHER, PROGRAMS, Recipe, recipe
from sandbox.toolchain import ToolchainError, find_go

BUILD_COMMAND = "gpu-tenure sandbox build"
WORK_PREFIX = ".building-"


class BuildError(RuntimeError):
    """A program could not be built; the message holds why, and the command to run again."""


@dataclass(frozen=True)
class Binaries:
    """Where each program lies."""

    paths: Mapping[str, Path]

    def path(self, program: str) -> str:
        """Gives the path of a program as text, ready for an argument list."""
        return str(self.paths[program])


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Gives the project's folder below the user's cache folder."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(base) / "gpu-tenure"


def find(environ: Mapping[str, str], program: str, kubernetes: str = "") -> Path | None:
    """Looks a program up in KUBEBUILDER_ASSETS, then in the cache; None if it must be built."""
    one = recipe(program, kubernetes)
    assets = environ.get("KUBEBUILDER_ASSETS", "")
    places = [Path(assets) / program] if assets else []
    return next((path for path in (*places, _cached(environ, one)) if _whole(path, one)), None)


def ensure(
    environ: Mapping[str, str],
    programs: Sequence[str] = PROGRAMS,
    progress: Progress | None = None,
    kubernetes: str = "",
) -> Binaries:
    """Gives all programs, building what is missing; two starters at once build each program once."""
    paths = {program: find(environ, program, kubernetes) for program in programs}
    if any(path is None for path in paths.values()):
        progress = progress or Progress.for_stderr()
        with _lock(cache_dir(environ) / "bin" / ".lock", progress):
            missing = [program for program in programs if find(environ, program, kubernetes) is None]
            try:
                _build_all(environ, [recipe(program, kubernetes) for program in missing], progress)
            except (BuildError, ToolchainError) as failure:
                msg = f"{failure}\nRun again with: make binaries (or {_command(programs, kubernetes)})"
                raise BuildError(msg) from failure
            except KeyboardInterrupt:
                progress.say("stopped; what is built stays, and the next start goes on from there")
                raise
        paths = {program: find(environ, program, kubernetes) for program in programs}
    return Binaries({program: path for program, path in paths.items() if path is not None})


def _command(programs: Sequence[str], kubernetes: str) -> str:
    """The command that builds just this."""
    release = f" --kubernetes {kubernetes}" if kubernetes else ""
    further = "".join(f" --with {program}" for program in programs if program in FURTHER)
    return f"{BUILD_COMMAND}{release}{further}"


def _build_all(environ: Mapping[str, str], recipes: Sequence[Recipe], progress: Progress) -> None:
    folder = cache_dir(environ) / "bin"
    for left_over in folder.glob(f"{WORK_PREFIX}*"):
        # Whoever left it was killed: the lock is ours.
        shutil.rmtree(left_over, ignore_errors=True)
    times_file = folder / "build-times.json"
    times = _read_times(times_file)
    for done, one in enumerate(recipes):
        left = len(recipes) - done - 1
        with (
            progress.step(f"building {one.name} {one.version}", left, times.get(one.name)) as step,
            tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=folder) as work,
        ):
            _build(environ, one, Path(work), progress)
        times[one.name] = step.seconds
        times_file.write_text(json.dumps(times, indent=1, sort_keys=True))


def _build(environ: Mapping[str, str], one: Recipe, work: Path, progress: Progress) -> None:
    """Builds one program inside `work`, which goes away with whatever Go leaves there when it is killed."""
    target = _cached(environ, one)
    go = find_go(environ, cache_dir(environ), one.go_version)
    partial = work / one.name
    command = [str(go), "build", "-ldflags", one.ldflags, "-tags", one.tags, "-o", str(partial), one.package]
    env = {**_go_environment(environ), "GOTMPDIR": str(work)}
    ran = _run(command, one.folder, env)
    if ran.returncode != 0:
        progress.say(f"building {one.name} failed; trying again with less memory, one package at a time")
        ran = _run(command, one.folder, {**env, "GOMAXPROCS": "1"})
    if ran.returncode != 0:
        msg = f"building {one.name} failed:\n{ran.stderr.strip()[-2000:]}"
        raise BuildError(msg)
    target.parent.mkdir(parents=True, exist_ok=True)
    if one.data:
        _copy_data(str(go), one, env, target.parent)
    # Last: where the program is, all of it is.
    partial.replace(target)


def _copy_data(go: str, one: Recipe, env: Mapping[str, str], folder: Path) -> None:
    """Copies a folder of the module beside the program; the module cache is read-only, the copy is not."""
    ran = _run([go, "list", "-m", "-f", "{{.Dir}}", one.module], one.folder, env)
    source = Path(ran.stdout.strip()) / one.data
    if ran.returncode != 0 or not source.is_dir():
        msg = f"building {one.name} failed: {one.module} has no {one.data}\n{ran.stderr.strip()[-2000:]}"
        raise BuildError(msg)
    for path in source.rglob("*"):
        if path.is_file():
            copy = folder / source.name / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def _run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def _go_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Everything of the caller's environment but what would change the product of the build."""
    fixed = {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    dropped = {"GOOS", "GOARCH", "GOEXPERIMENT", "KUBEBUILDER_ASSETS"}
    return {**{key: value for key, value in environ.items() if key not in dropped}, **fixed}


def _cached(environ: Mapping[str, str], one: Recipe) -> Path:
    return cache_dir(environ) / "bin" / one.key / one.name


def _whole(path: Path, one: Recipe) -> bool:
    """Whether a program is there and may be run, with the data that belongs beside it."""
    data = not one.data or (path.parent / Path(one.data).name).is_dir()
    return path.is_file() and os.access(path, os.X_OK) and data


def _read_times(path: Path) -> dict[str, float]:
    try:
        loaded = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): float(seconds) for name, seconds in loaded.items()} if isinstance(loaded, dict) else {}


@contextlib.contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another process is building; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def clear(environ: Mapping[str, str]) -> None:
    """Removes all built programs from the cache."""
    shutil.rmtree(cache_dir(environ) / "bin", ignore_errors=True)
