"""A newcomer follows docs/try.md, block by block, in a shell that keeps what is exported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.test_session import processes_of

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "try.md"
BLOCK_SECONDS = 240
UP = "gpu-tenure sandbox up"
# The part of a block that says which it is, and what has to be said when it is run.
SAID: dict[str, tuple[str, ...]] = {
    UP: (r"gpu-1 +Ready", r"gpu-3 +Ready"),
    "helm upgrade --install": (r"successfully rolled out", r"\d remarks"),
    "apply -f sandbox/tour": (
        r"forgotten .* tour +batch +evict",
        r"busy .* tour +batch +evict",
        r"in 2 pods",
    ),
    "profile=enforce": (
        r"GPUIdleWarning +pod/forgotten",
        r"GPUIdleEvicted +pod/forgotten",
        r"tour +forgotten .* evicted",
        r"busy +1/1 +Running",
    ),
    "gpu-tenure pause": (r"paused until .*: trying it", r"not paused any more"),
    "certs inspect": (r"CA that signs", r"(?s)next: keep.*next: keep", r"probe .*gpu-tenure.io/policy=tour"),
    "helm rollback": (
        r"Rollback was a success",
        r"with the profile warn",
        r"uninstalled",
        r"pod/forgotten created",
    ),
    "install.yaml": (r"successfully rolled out", r"not paused any more", r"the sandbox has ended"),
}


def blocks() -> list[str]:
    """The commands of the page, as they are written."""
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_each_block_of_the_page_is_expected_to_say_something() -> None:
    """Nobody adds one that is run by no test."""
    assert len(blocks()) == len(SAID)
    for block, key in zip(blocks(), SAID, strict=True):
        assert key in block


def run(block: str, env: dict[str, str], kept: Path) -> subprocess.CompletedProcess[str]:
    """Runs commands in a shell that has what was exported before, and keeps what they export."""
    script = f". {kept}\nset -e\n{block}\nexport -p > {kept}\n"
    return subprocess.run(
        ["/bin/sh", "-c", script],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=BLOCK_SECONDS,
    )


def on_release(block: str, kubernetes: str) -> str:
    """The same commands for a sandbox of another release, as the page says how to have one."""
    return block.replace(UP, f"{UP} --kubernetes {kubernetes}") if kubernetes else block


def test_the_page_can_be_followed_to_its_end(
    environ: dict[str, str], kubernetes: str, tmp_path: Path
) -> None:
    """Every command succeeds, says what the page says, and nothing is left running."""
    kept = tmp_path / "exported"
    kept.write_text("")
    env = {**environ, "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}"}
    for name in ("KUBECONFIG", "PROMETHEUS_URL"):
        env.pop(name, None)
    folder = ""
    for block, expected in zip(blocks(), SAID.values(), strict=True):
        done = run(on_release(block, kubernetes), env, kept)
        said = f"{done.stdout}{done.stderr}"
        assert done.returncode == 0, f"{block}\n{said}"
        for pattern in expected:
            assert re.search(pattern, said), f"{pattern} is missing after\n{block}\n{said}"
        if not folder:
            folder = re.search(r"Logs (\S+)/logs", said)[1]  # type: ignore[index]
            assert f"Server Version: {kubernetes}" in run("kubectl version", env, kept).stdout
    assert not processes_of(folder)
