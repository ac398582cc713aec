"""The comparators are built again when, and only when, their sources change."""

import shutil
from io import StringIO
from pathlib import Path

from rich.console import Console

from bench.programs import MODULE, ensure_programs, fingerprint
from sandbox.binaries import cache_dir
from sandbox.progress import Progress


def test_a_change_of_any_source_is_another_build(tmp_path: Path) -> None:
    """The rules that both comparators share count as much as their own code."""
    copy = tmp_path / "comparators"
    shutil.copytree(MODULE, copy)
    assert fingerprint(copy) == fingerprint(MODULE)
    rules = copy / "rules" / "rules.go"
    rules.write_text(rules.read_text() + "\n// changed\n")
    assert fingerprint(copy) != fingerprint(MODULE)


def test_what_the_cache_holds_is_not_built_again(tmp_path: Path) -> None:
    """Without a toolchain on the path nothing could be built, and nothing is said."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    folder = cache_dir(environ) / "bench" / fingerprint(MODULE)
    folder.mkdir(parents=True)
    (folder / "plain").touch(mode=0o755)
    said = StringIO()
    programs = ensure_programs(environ, Progress(Console(file=said)), ["plain"])
    assert programs.path("plain") == str(folder / "plain")
    assert said.getvalue() == ""
