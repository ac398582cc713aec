"""Fake API servers, clients of theirs, times and a watch cache."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from certs.issue import issue_ca, issue_leaf
from runtime.kube import KubeClient
from runtime.watch import Change, WatchCache, WatchOptions
from tests.runtime.fakes import FakeApi, FakeTime
from tests.runtime.things import PODS, Thing, decode


async def _serve(api: FakeApi, context: ssl.SSLContext | None) -> web.AppRunner:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    scheme = "https" if context else "http"
    api.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    return runner


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeApi]:
    """A fake API server over plain HTTP."""
    api = FakeApi()
    runner = await _serve(api, None)
    yield api
    api.release()
    await runner.cleanup()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The files of a CA, a leaf for 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    now = datetime.now(UTC)
    ca = issue_ca("test", now, timedelta(days=1))
    leaf = issue_leaf(ca, [], ["127.0.0.1"], now, timedelta(days=1))
    files = (folder / "ca.pem", folder / "tls.crt", folder / "tls.key")
    for path, content in zip(files, (ca.cert_pem, leaf.cert_pem, leaf.key_pem), strict=True):
        path.write_bytes(content)
    return files


@pytest.fixture
async def secure_api(authority: tuple[Path, Path, Path]) -> AsyncIterator[FakeApi]:
    """A fake API server over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority[1], authority[2])
    api = FakeApi()
    runner = await _serve(api, context)
    yield api
    api.release()
    await runner.cleanup()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., Path]:
    """Writes a kubeconfig for a server, a user and optional cluster fields, and returns its path."""

    def write(server: str, user: dict[str, Any] | None = None, **cluster: object) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(content))
        return path

    return write


@pytest.fixture
async def client(fake_api: FakeApi, kubeconfig: Callable[..., Path]) -> AsyncIterator[KubeClient]:
    """A client of the plain fake API server whose calls may take half a second."""
    async with await KubeClient.connect(kubeconfig(fake_api.url), timeout=0.5) as connected:
        yield connected


@pytest.fixture
def fake_time() -> FakeTime:
    """A time that sleeping moves at once."""
    return FakeTime(auto=True)


@pytest.fixture
def manual_time() -> FakeTime:
    """A time that only the test moves."""
    return FakeTime(auto=False)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Waits until a condition holds, at most five seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - the condition is of the code under test
                await asyncio.sleep(0.002)

    return wait


@pytest.fixture
async def start() -> AsyncIterator[Callable[[Any], asyncio.Task[Any]]]:
    """Starts coroutines; those that still run at the end of the test are cancelled."""
    tasks: list[asyncio.Task[Any]] = []

    def begin(coroutine: Any) -> asyncio.Task[Any]:
        tasks.append(asyncio.create_task(coroutine))
        return tasks[-1]

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def closed_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cache(client: KubeClient, fake_time: Any) -> WatchCache[Thing]:
    """A cache of the fake API server's pods that never really sleeps and draws no jitter."""
    options = WatchOptions(page_size=2, idle_timeout=0.3, sleep=fake_time.sleep, draw=lambda: 0.0)
    return WatchCache(client, PODS, decode, clock=fake_time, query={"labelSelector": "a=b"}, options=options)


@pytest.fixture
def told(cache: WatchCache[Thing]) -> list[tuple[str, int | None, int | None]]:
    """The changes that a subscriber was told: kind, old size, new size."""
    changes: list[tuple[str, int | None, int | None]] = []

    def remember(change: Change, old: Thing | None, new: Thing | None) -> None:
        changes.append((change.value, old.size if old else None, new.size if new else None))

    cache.subscribe(remember)
    return changes
