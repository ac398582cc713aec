"""What the sandbox builds: one recipe per program, pinned by the Go modules beside it; builds nothing."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

MODULES_DIR = Path(__file__).parent / "modules"
KUBERNETES = "kubernetes"


class RecipeError(ValueError):
    """The pinned modules do not hold what was asked for."""


@dataclass(frozen=True)
class Recipe:
    """How one program is built.

    Attributes:
        name: The program, also its file name.
        folder: The folder of the Go module that pins it.
        package: The Go package of its main function.
        version: The pinned version of the module that holds it.
        ldflags: Flags of the linker.
        tags: Build tags, comma-separated; empty for none.
        module: The path of the module that holds it.
        data: A folder of that module that is put beside the program, under its last name; empty for none.
    """

    name: str
    folder: Path
    package: str
    version: str
    ldflags: str
    tags: str = ""
    module: str = ""
    data: str = ""

    @property
    def key(self) -> str:
        """Names this build: module, version and a hash over everything that decides its content."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum", *sorted(path.name for path in self.folder.glob("*.go"))):
            digest.update((self.folder / name).read_bytes())
        digest.update(f"{self.ldflags}\n{self.tags}".encode())
        return f"{self._family}-{self.version}-{digest.hexdigest()[:10]}"

    @property
    def _family(self) -> str:
        """The name of the folder without the release that it may end with."""
        return self.folder.name.split("-v")[0]

    @property
    def go_version(self) -> tuple[int, int]:
        """The least Go release (major, minor) that the module asks for."""
        found = re.search(r"^go (\d+)\.(\d+)", (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            msg = f"{self.folder}/go.mod: has no go line"
            raise RecipeError(msg)
        return int(found[1]), int(found[2])


@dataclass(frozen=True)
class _Source:
    """Where a program comes from: module folder, module path, package, and extra build settings."""

    folder: str
    module: str
    package: str
    variables: tuple[str, ...] = ()
    tags: str = ""
    data: str = ""


_K8S = (
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor={major}",
    "k8s.io/component-base/version.gitMinor={minor}",
    "k8s.io/client-go/pkg/version.gitVersion={version}",
)
_HELM = (
    "helm.sh/helm/v3/internal/version.version={version}",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36",
)
# Prometheus 3.16.0 is published as the module version v0.316.0.
_PROMETHEUS = ("github.com/prometheus/common/version.Version=3.16.0",)
_ALERTMANAGER = ("github.com/prometheus/common/version.Version={version}",)


def _kubernetes(program: str) -> _Source:
    return _Source(KUBERNETES, "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{program}", _K8S)


def _prometheus(program: str) -> _Source:
    # Static targets are enough here; without service discovery the build takes less than half the time.
    package = f"github.com/prometheus/prometheus/cmd/{program}"
    return _Source("prometheus", "github.com/prometheus/prometheus", package, _PROMETHEUS, "remove_all_sd")


_SOURCES = {
    "etcd": _Source("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _kubernetes("kube-apiserver"),
    "kube-controller-manager": _kubernetes("kube-controller-manager"),
    "kube-scheduler": _kubernetes("kube-scheduler"),
    "kubectl": _kubernetes("kubectl"),
    "kwok": _Source("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "prometheus": _prometheus("prometheus"),
    "promtool": _prometheus("promtool"),
    "alertmanager": _Source(
        "alertmanager",
        "github.com/prometheus/alertmanager",
        "github.com/prometheus/alertmanager/cmd/alertmanager",
        _ALERTMANAGER,
    ),
    "helm": _Source("helm", "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm", _HELM),
}
# What few need is built when it is asked for by name. The main function of cert-manager is ours: its own are
# modules that no proxy serves.
_FURTHER = {
    "cert-manager": _Source(
        "cert-manager",
        "github.com/cert-manager/cert-manager",
        ".",
        ("github.com/cert-manager/cert-manager/pkg/util.AppVersion={version}",),
        data="deploy/charts",
    ),
}
PROGRAMS = tuple(_SOURCES)
FURTHER = tuple(_FURTHER)


def recipe(program: str, kubernetes: str = "", modules: Path = MODULES_DIR) -> Recipe:
    """Gives the recipe of a program; `kubernetes` (such as `v1.34.4`) selects another pinned release."""
    source = {**_SOURCES, **_FURTHER}.get(program)
    if source is None:
        msg = f"no recipe builds {program}; known are {', '.join((*PROGRAMS, *FURTHER))}"
        raise RecipeError(msg)
    folder = modules / source.folder
    if source.folder == KUBERNETES and kubernetes and pinned_version(folder, source.module) != kubernetes:
        folder = modules / f"{KUBERNETES}-{kubernetes}"
        if not folder.is_dir():
            pinned = pinned_version(modules / KUBERNETES, source.module)
            msg = f"Kubernetes {kubernetes} has no such pinned module ({folder}); {pinned} has"
            raise RecipeError(msg)
    version = pinned_version(folder, source.module)
    ldflags = _ldflags(source, version)
    return Recipe(program, folder, source.package, version, ldflags, source.tags, source.module, source.data)


def pinned_version(folder: Path, module: str) -> str:
    """Reads the version of a module from the `go.mod` in a folder."""
    path = folder / "go.mod"
    if not path.is_file():
        msg = f"{path}: no such pinned module"
        raise RecipeError(msg)
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", path.read_text(), re.MULTILINE)
    if found is None:
        msg = f"{path}: does not require {module}"
        raise RecipeError(msg)
    return found[1]


def _ldflags(source: _Source, version: str) -> str:
    major, minor = version.removeprefix("v").split(".")[:2]
    variables = (text.format(version=version, major=major, minor=minor) for text in source.variables)
    return " ".join(("-s -w", *(f"-X {variable}" for variable in variables)))
