"""Programs are looked up, then built once."""

from __future__ import annotations

import io
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sandbox.binaries import WORK_PREFIX, BuildError, cache_dir, ensure, find
from sandbox.progress import Progress, clock_text
from sandbox.recipes import FURTHER, MODULES_DIR, PROGRAMS, RecipeError, pinned_version, recipe
from sandbox.toolchain import ToolchainError, find_go, go_release

# Plays the toolchain: says its release, logs each build, and writes the output file or fails.
GO = """#!/bin/sh
case "$1" in
env) echo go{release}.1 ;;
list) echo {module} ;;
build)
  echo "$GOFLAGS|$CGO_ENABLED|$*" >> {log}
  while [ "$1" != -o ]; do shift; done
  {then}
  printf '#!/bin/sh\\necho built' > "$2"; chmod +x "$2" ;;
esac
"""


class Machine:
    """A machine with a toolchain of our making and an empty cache."""

    def __init__(self, root: Path) -> None:
        self.log = root / "go.log"
        self.module = root / "module"
        self.environ = {
            "PATH": f"{root / 'bin'}:/usr/bin:/bin",
            "XDG_CACHE_HOME": str(root / "cache"),
            "GOOS": "plan9",
        }
        (root / "bin").mkdir()
        self.go = root / "bin" / "go"
        self.install("")

    def install(self, then: str, release: str = "1.99") -> None:
        """Writes the toolchain; `then` is what it does before it writes a program."""
        self.go.write_text(GO.format(log=self.log, module=self.module, then=then, release=release))
        self.go.chmod(0o755)

    @property
    def builds(self) -> list[str]:
        """The builds that were run."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def left_over(self) -> list[str]:
        """What lies in the cache and is no program, lock or list of times."""
        folder = cache_dir(self.environ) / "bin"
        return [path.name for path in folder.iterdir() if path.name.startswith(WORK_PREFIX)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with nothing built."""
    return Machine(tmp_path)


def quiet() -> tuple[Progress, io.StringIO]:
    """A progress that writes to memory."""
    out = io.StringIO()
    return Progress(Console(file=out, width=200)), out


def test_assets_come_first(machine: Machine, tmp_path: Path) -> None:
    """Whoever has the programs need not build them."""
    assets = tmp_path / "assets"
    assets.mkdir()
    shutil.copy("/bin/true", assets / "etcd")
    environ = {**machine.environ, "KUBEBUILDER_ASSETS": str(assets)}
    assert find(environ, "etcd") == assets / "etcd"
    assert find(environ, "kwok") is None


def test_a_second_start_builds_nothing(machine: Machine) -> None:
    """The cache is keyed by version and recipe, and a build is pinned and reproducible."""
    progress, _ = quiet()
    first = ensure(machine.environ, ["etcd", "kwok"], progress)
    assert len(machine.builds) == 2
    assert all(line.startswith("-trimpath -buildvcs=false|0|") for line in machine.builds)
    assert ensure(machine.environ, ["etcd", "kwok"], progress) == first
    assert len(machine.builds) == 2
    assert "etcd-v3.6.16-" in first.path("etcd")


def test_what_belongs_to_a_program_lies_beside_it(machine: Machine, tmp_path: Path) -> None:
    """cert-manager comes with its chart, whichever folder it is found in; without that it is not found."""
    chart = machine.module / "deploy" / "charts" / "cert-manager"
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: cert-manager")
    (chart / "Chart.yaml").chmod(0o444)
    built = Path(ensure(machine.environ, ["cert-manager"], quiet()[0]).path("cert-manager"))
    beside = built.parent / "charts" / "cert-manager" / "Chart.yaml"
    assert beside.read_text() == "name: cert-manager"
    assets = tmp_path / "assets"
    assets.mkdir()
    shutil.copy(built, assets)
    environ = {**machine.environ, "KUBEBUILDER_ASSETS": str(assets)}
    assert find(environ, "cert-manager") == built
    shutil.copytree(built.parent / "charts", assets / "charts")
    assert find(environ, "cert-manager") == assets / "cert-manager"


def test_a_module_without_what_belongs_to_its_program_is_an_error(machine: Machine) -> None:
    """Nothing half-built is left, and the command that tries again builds this program."""
    with pytest.raises(BuildError, match=r"(?s)has no deploy/charts.*--with cert-manager"):
        ensure(machine.environ, ["cert-manager"], quiet()[0])
    assert find(machine.environ, "cert-manager") is None
    assert not machine.left_over


def test_two_starters_build_once(machine: Machine) -> None:
    """The second waits for the first and takes its work."""
    machine.install("sleep 0.3")
    threads = [
        threading.Thread(target=ensure, args=(machine.environ, ["etcd"], quiet()[0])) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.builds) == 1


def test_progress_says_what_how_many_and_how_long_last_time(machine: Machine) -> None:
    """Nobody should wonder whether it hangs."""
    progress, out = quiet()
    ensure(machine.environ, ["etcd", "kwok"], progress)
    assert "building etcd v3.6.16 (1 more after this)" in out.getvalue()
    times = cache_dir(machine.environ) / "bin" / "build-times.json"
    times.write_text('{"etcd": 220.0}')
    Path(ensure(machine.environ, ["etcd"], progress).path("etcd")).unlink()
    ensure(machine.environ, ["etcd"], progress)
    assert "took 3:40 last time" in out.getvalue()


def test_a_failed_build_says_which_command_to_run_again(machine: Machine) -> None:
    """It is tried twice, leaves nothing half-built, and later starts try again."""
    machine.install("echo no space left >&2; exit 1")
    progress, out = quiet()
    with pytest.raises(BuildError, match=r"(?s)etcd failed.*no space left.*make binaries"):
        ensure(machine.environ, ["etcd"], progress)
    assert len(machine.builds) == 2
    assert "trying again" in out.getvalue()
    assert find(machine.environ, "etcd") is None
    assert not machine.left_over
    machine.install("")
    assert ensure(machine.environ, ["etcd"], quiet()[0]).path("etcd")


def test_an_interrupted_build_leaves_nothing_half_built(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C kills Go before it tidies up: its folder goes with ours, and what was built stays."""
    ensure(machine.environ, ["etcd"], quiet()[0])

    def pressed(command: list[str], **given: Any) -> None:
        Path(given["env"]["GOTMPDIR"], "go-build1").mkdir()
        Path(command[command.index("-o") + 1]).write_text("half a program")
        raise KeyboardInterrupt

    monkeypatch.setattr("sandbox.binaries.subprocess.run", pressed)
    monkeypatch.setattr("sandbox.binaries.find_go", lambda *_: machine.go)
    progress, out = quiet()
    with pytest.raises(KeyboardInterrupt):
        ensure(machine.environ, ["etcd", "kwok"], progress)
    assert "what is built stays" in out.getvalue()
    assert find(machine.environ, "etcd")
    assert find(machine.environ, "kwok") is None
    assert not machine.left_over


def test_what_a_killed_build_left_goes_with_the_next(machine: Machine) -> None:
    """Nobody can tidy up after SIGKILL but whoever comes next."""
    (cache_dir(machine.environ) / "bin" / f"{WORK_PREFIX}killed").mkdir(parents=True)
    ensure(machine.environ, ["etcd"], quiet()[0])
    assert not machine.left_over


def test_a_machine_without_go_is_told_how_to_go_on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Go and no package registry is an error with a sentence, as a failed build is."""

    def none(*_: object) -> Path:
        msg = "no Go on the path is new enough"
        raise ToolchainError(msg)

    monkeypatch.setattr("sandbox.binaries.find_go", none)
    with pytest.raises(BuildError, match=r"(?s)no Go on the path.*--kubernetes v1\.36\.3"):
        ensure(machine.environ, ["etcd"], quiet()[0], "v1.36.3")


def test_a_new_enough_toolchain_on_the_path_is_used(machine: Machine, tmp_path: Path) -> None:
    """Nothing is installed if Go is there."""
    assert find_go(machine.environ, tmp_path / "cache", (1, 26)) == machine.go


def test_what_is_not_go_has_no_release(tmp_path: Path) -> None:
    """Some other program of that name is passed over."""
    assert go_release(Path("/bin/true"), {}) == (0, 0)
    assert go_release(tmp_path / "absent", {}) == (0, 0)


def test_every_recipe_is_pinned() -> None:
    """Each program has a module with a version, sums, and the Kubernetes replacements of that version."""
    for program in (*PROGRAMS, *FURTHER):
        found = recipe(program)
        (source,) = found.folder.glob("*.go")
        assert found.module.split("/")[0] in source.read_text()
        assert (found.folder / "go.sum").stat().st_size > 1000
    replaced = (MODULES_DIR / "kubernetes" / "go.mod").read_text()
    version = pinned_version(MODULES_DIR / "kubernetes", "k8s.io/kubernetes")
    assert f"k8s.io/client-go => k8s.io/client-go {version.replace('v1.', 'v0.')}" in replaced
    assert f"gitVersion={version}" in recipe("kubectl").ldflags


def test_other_kubernetes_releases_lie_beside_the_first() -> None:
    """The release is a parameter of the layout; the rest of the programs do not change."""
    others = sorted(MODULES_DIR.glob("kubernetes-v*"))
    assert len(others) >= 2
    for folder in others:
        version = folder.name.removeprefix("kubernetes-")
        found = recipe("kube-apiserver", version)
        assert (found.folder, found.version) == (folder, version)
        assert f"gitMinor={version.split('.')[1]}" in found.ldflags
        client = f"k8s.io/client-go => k8s.io/client-go {version.replace('v1.', 'v0.')}"
        assert client in (folder / "go.mod").read_text()
        assert recipe("etcd", version).key == recipe("etcd").key
    with pytest.raises(RecipeError, match="no such pinned module"):
        recipe("kube-apiserver", "v1.99.0")


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    """The error helps."""
    with pytest.raises(RecipeError, match="known are etcd"):
        recipe("kubelet")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (59.9, "0:59"), (220, "3:40"), (3661, "61:01")])
def test_times_are_read_like_a_stop_watch(seconds: float, text: str) -> None:
    """Minutes and seconds."""
    assert clock_text(seconds) == text
