"""Reads of a cluster what a person may read, and remembers what they may not; decides nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from policy.errors import FieldError, InvalidError
from policy.selection import PolicySet
from reaper.clocks import server_time
from runtime.catalog import POLICIES_PATH
from runtime.clock import SystemClock
from runtime.kube import ApiError, ApiUnreachable, KubeClient, KubePort
from runtime.kubeconfig import KubeConfigError
from runtime.listing import Reader, read_list

T = TypeVar("T")
PAGE = 500
UNREADABLE = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED})


class Cluster:
    """A cluster as one person sees it.

    Attributes:
        client: The API server.
        now: The time by the API server's clock, as far as it says: a person's may be wrong.
        missing: What could not be read, in words, with why.
    """

    def __init__(self, client: KubePort, now: datetime) -> None:
        self.client = client
        self.now = now
        self.missing: dict[str, str] = {}

    async def listed(
        self, what: str, path: str, decode: Callable[[msgspec.Raw], T | None], query: Mapping[str, str] = {}
    ) -> list[T] | None:
        """Gives a collection; None, and `what` is missing, if it may not be read or is not there."""
        try:
            _, entries = await read_list(self.client, Reader(path, decode), query, PAGE)
        except ApiError as error:
            self._note(what, error)
            return None
        return [entry.value for entry in entries.values()]

    async def one(self, what: str, path: str, decode: Callable[[bytes], T]) -> T | None:
        """Gives one object; None, and `what` is missing, if it may not be read or is not there."""
        try:
            answer = await self.client.request("GET", path)
        except ApiError as error:
            self._note(what, error)
            return None
        try:
            return decode(answer.body)
        except (msgspec.DecodeError, ValueError) as error:
            self.missing[what] = f"cannot be read: {error}"
            return None

    async def policies(self) -> PolicySet | None:
        """Gives the GPUPolicies; None if they may not be read."""
        found = await self.listed("GPUPolicies", POLICIES_PATH, _object)
        return None if found is None else PolicySet.of(found)

    def _note(self, what: str, error: ApiError) -> None:
        if error.status not in UNREADABLE:
            raise error
        forbidden = error.status != HTTPStatus.NOT_FOUND
        self.missing[what] = "not readable with your rights" if forbidden else "not there"


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(raw)
    return found


@asynccontextmanager
async def connected(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Cluster]:
    """Connects to the cluster of a kubeconfig; raises KubeConfigError and ApiUnreachable."""
    async with await KubeClient.connect(kubeconfig, context) as client:
        now = None
        with suppress(ApiError):  # whoever may not ask for it has a clock of their own
            now = server_time((await client.request("GET", "/version")).headers)
        yield Cluster(client, now or SystemClock().now())


def answered(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs what asks a cluster; ends the process with a sentence where it does not answer.

    Raises:
        InvalidError: the kubeconfig cannot be used.
    """
    try:
        return asyncio.run(work())
    except KubeConfigError as error:
        raise InvalidError([FieldError("--kubeconfig", str(error))]) from error
    except (ApiError, ApiUnreachable) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def namespace_of(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str] | None = None
) -> str:
    """Gives the namespace that kubectl would take: that of the context, else `default`."""
    environ = os.environ if environ is None else environ
    files = str(kubeconfig) if kubeconfig else environ.get("KUBECONFIG") or "~/.kube/config"
    wanted = context
    found: dict[str, str] = {}
    for part in filter(None, files.split(os.pathsep)):
        try:
            content = yaml.safe_load(Path(part).expanduser().read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        wanted = wanted or _text(content, "current-context")
        for entry in content.get("contexts") or () if isinstance(content, dict) else ():
            inner = entry.get("context") if isinstance(entry, dict) else None
            found.setdefault(_text(entry, "name"), _text(inner, "namespace"))
    return found.get(wanted or "") or "default"


def _text(content: object, key: str) -> str:
    value = content.get(key) if isinstance(content, dict) else None
    return value if isinstance(value, str) else ""
