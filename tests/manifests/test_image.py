"""What the Dockerfile promises; no image is built here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
STAGES = TEXT.split("\nFROM ")[1:]


def test_the_base_is_pinned_by_an_exact_tag() -> None:
    """One base for all stages, of a full version, which a builder may narrow to a digest."""
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    assert len(STAGES) == 3
    assert all(stage.startswith("${PYTHON_IMAGE}") for stage in STAGES)


def test_it_does_not_run_as_root() -> None:
    """By number, so that `runAsNonRoot` can be checked."""
    assert re.findall(r"^USER (\S+)$", STAGES[-1], re.MULTILINE) == ["65532:65532"]


def test_everything_installed_is_checked_by_hash() -> None:
    """Each installation is from a lock, or of our own wheel without dependencies."""
    installs = [
        part
        for line in LINES
        for part in re.split(r"&&", line)
        if re.search(r"pip .*\b(install|wheel)\b", part)
    ]
    assert len(installs) == 4
    for one in installs:
        assert "--require-hashes" in one or "--no-deps" in one
    assert "requirements/run.txt" in STAGES[1]
    assert "dev.txt" not in STAGES[1] + STAGES[2]


def test_the_last_stage_takes_the_environment_alone() -> None:
    """No lock, no source, no tool of the build."""
    assert re.findall(r"^COPY (.*)$", STAGES[-1], re.MULTILINE) == [
        "--from=install /opt/gpu-tenure /opt/gpu-tenure"
    ]
    assert "RUN" not in STAGES[-1]


def test_every_package_is_copied_and_let_through() -> None:
    """What the wheel holds, the build sees; the ignore file lets nothing else pass."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    copied = {
        source.split("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE)
        for source in line.split()
    }
    assert copied == packages | {"requirements", "pyproject.toml", "README.md", "LICENSE"}
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:].split("/")[0] for line in ignore if line.startswith("!")}
    assert "*" in ignore
    assert let_through == copied


COMMANDS = {
    "webhook": ("deployment", "args: [webhook]"),
    "reaper": ("deployment", '(list "reaper")'),
    "reaper as a CronJob": ("cronjob", '(list "reaper" "--once")'),
    "quota": ("deployment", "args: [quota]"),
    "certs": ("deployment", "args: [certs, watch]"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_entry_point_takes_the_charts_arguments(name: str) -> None:
    """A Deployment gives the name of its component, and how it runs where there is a choice."""
    assert re.findall(r"^ENTRYPOINT (.*)$", TEXT, re.MULTILINE) == ['["gpu-tenure"]']
    file, arguments = COMMANDS[name]
    chart = ROOT / "manifests" / "chart" / "templates" / name.partition(" ")[0] / f"{file}.yaml"
    assert arguments in chart.read_text()
