"""Where the API server is and how to prove who we are. Knows nothing of requests.

kubernetes_asyncio reads kubeconfig files and the in-cluster service account. Its package imports every
model of the API (about 37 MB and 0.3 s), so only its loaders are imported, under empty parent packages.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # missing in the stubs

from yaml import YAMLError

LIBRARY = "kubernetes_asyncio"
EXEC_PLUGIN_SECONDS = 30.0


class KubeConfigError(Exception):
    """The access to the API server cannot be told; the message names the file or the variable."""


class Configuration(Protocol):
    """What is used of the library's Configuration; it also holds the CA and the client certificate."""

    host: str
    proxy: str | None
    tls_server_name: str | None
    api_key: dict[str, str]

    async def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """Returns the value of the Authorization header; renews a service account's token."""
        ...


class FileLoader(Protocol):
    """What is used of the library's loader of kubeconfig files."""

    _user: object
    provider: str | None

    async def _load_authentication(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server.

    `session_factory` is the library's REST client class; `proxy` is a proxy's URL or None; `refresh(force)`
    renews the credentials where they can expire; `in_cluster` says that it is the pod's own API server.
    """

    configuration: Configuration
    session_factory: Callable[[Configuration], Any]
    proxy: str | None
    refresh: Callable[[bool], Awaitable[None]]
    in_cluster: bool = False

    @property
    def host(self) -> str:
        """The base URL of the API server, without a final slash."""
        return self.configuration.host.rstrip("/")

    @property
    def encrypted(self) -> bool:
        """Whether requests go over TLS; without it no credentials are sent, as in kubectl."""
        return urlsplit(self.host).scheme == "https"

    async def authorization(self, *, force: bool = False) -> str | None:
        """Returns the value of the Authorization header, renewed if due (or if `force`), or None."""
        if not self.encrypted:
            return None
        await self.refresh(force)
        value = await self.configuration.get_api_key_with_prefix("BearerToken")
        return value.strip() if value else None


async def load_access(
    kubeconfig: Path | None = None, context: str | None = None, environ: Mapping[str, str] | None = None
) -> Access:
    """Finds the access: the given file, else the pod's service account, else KUBECONFIG, else ~/.kube/config.

    Raises KubeConfigError with a sentence that says what is missing.
    """
    environ = os.environ if environ is None else environ
    library = _loaders()
    in_cluster = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in environ
    configuration: Configuration = library.configuration.Configuration()
    refresh: Callable[[bool], Awaitable[None]] = _nothing
    try:
        if in_cluster:
            library.incluster_config.load_incluster_config(configuration, environ=environ)
        else:
            files = str(kubeconfig) if kubeconfig else environ.get("KUBECONFIG") or "~/.kube/config"
            refresh = await _load_file(library, configuration, files, context)
    except (library.config_exception.ConfigException, OSError, ValueError, TypeError, YAMLError) as error:
        source = "the pod's service account" if in_cluster else f"kubeconfig {kubeconfig or 'file'}"
        msg = f"{source}: {error}"
        raise KubeConfigError(msg) from error
    proxy = configuration.proxy or _environment_proxy(configuration.host, environ)
    return Access(configuration, library.rest.RESTClientObject, proxy, refresh, in_cluster)


async def _nothing(force: bool) -> None:  # noqa: ARG001 - the library renews a service account's token itself
    return None


async def _load_file(
    library: Loaders, configuration: Configuration, files: str, context: str | None
) -> Callable[[bool], Awaitable[None]]:
    loader = await library.kube_config.load_kube_config(
        _existing(files), context, configuration, persist_config=False
    )
    return _refresher(loader, configuration)


def _existing(files: str) -> str:
    paths = [Path(part).expanduser() for part in files.split(os.pathsep) if part]
    if not any(path.is_file() for path in paths):
        msg = f"no such file: {', '.join(map(str, paths))}"
        raise ValueError(msg)
    return os.pathsep.join(map(str, paths))


def _refresher(loader: FileLoader, configuration: Configuration) -> Callable[[bool], Awaitable[None]]:
    """Renews what an exec plugin, an identity provider or a token file gave; each knows when it is due."""
    user = loader._user  # noqa: SLF001 - the library has no public name for it
    by_plugin = isinstance(user, Container) and "exec" in user
    lock = asyncio.Lock()

    async def refresh(force: bool) -> None:
        due = force or hasattr(loader, "exec_plugin_expiry") or loader.provider is not None
        if not isinstance(user, Container) or not (due or "tokenFile" in user):
            return
        async with lock, asyncio.timeout(EXEC_PLUGIN_SECONDS):
            if by_plugin and force and hasattr(loader, "exec_plugin_expiry"):
                del loader.exec_plugin_expiry
            await loader._load_authentication()  # noqa: SLF001 - it looks at the expiry itself
        if hasattr(loader, "token"):
            configuration.api_key["BearerToken"] = loader.token

    return refresh


def _environment_proxy(host: str, environ: Mapping[str, str]) -> str | None:
    """Reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY as other Kubernetes clients do."""
    parts = urlsplit(host)
    lowered = {name.lower(): value for name, value in environ.items() if value}
    proxy = lowered.get(f"{parts.scheme}_proxy")
    if not proxy or proxy_bypass_environment(parts.netloc, {"no": lowered.get("no_proxy", "")}):
        return None
    return proxy


@dataclass(frozen=True, slots=True)
class Loaders:
    """The modules of the library that are used here."""

    configuration: Any
    rest: Any
    config_exception: Any
    incluster_config: Any
    kube_config: Any


_MODULES = {
    "configuration": "client.configuration",
    "rest": "client.rest",
    "config_exception": "config.config_exception",
    "incluster_config": "config.incluster_config",
    "kube_config": "config.kube_config",
}
_kept: list[Loaders] = []


def _loaders() -> Loaders:
    """Imports the loaders once; what others import of the library is neither used nor changed."""
    if not _kept:
        shadowed = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_library(name)}
        try:
            _lay_empty_packages()
            modules = {key: importlib.import_module(f"{LIBRARY}.{name}") for key, name in _MODULES.items()}
        finally:
            for name in [name for name in sys.modules if _is_library(name)]:
                del sys.modules[name]
            sys.modules.update(shadowed)
        _kept.append(Loaders(**modules))
    return _kept[0]


def _is_library(name: str) -> bool:
    return name == LIBRARY or name.startswith(f"{LIBRARY}.")


def _lay_empty_packages() -> None:
    spec = importlib.util.find_spec(LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        msg = f"{LIBRARY} is not installed"
        raise ImportError(msg)
    root = Path(next(iter(spec.submodule_search_locations)))
    for name in (LIBRARY, f"{LIBRARY}.client", f"{LIBRARY}.config"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    client = cast("Any", sys.modules[f"{LIBRARY}.client"])
    client.Configuration = importlib.import_module(f"{LIBRARY}.client.configuration").Configuration
    client.ApiClient = object
