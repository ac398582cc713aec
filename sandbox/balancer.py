"""A TCP balancer in the place of a Service: new connections go to ready backends in turn; knows no HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self, TypeVar

from sandbox.deadline import wait
from sandbox.ports import LOOPBACK
from sandbox.startup import answers

T = TypeVar("T")
PROBE_SECONDS = 0.2
LAST_TURNS = 10
CONNECT_SECONDS = 2.0
CHUNK = 1 << 16


class Mode(Enum):
    """What the balancer does with connections."""

    PASS = "pass"
    BLACK_HOLE = "black hole"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Backend:
    """One replica: its address, and where it says that it is ready (empty: always ready)."""

    host: str
    port: int
    ready_url: str = ""


class Balancer:
    """Listens on one loopback port for as long as it is open.

    A backend that stops being ready gets no new connections; existing ones stay, as with a real Service.
    Changing the mode cuts all existing connections.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self._mode = Mode.PASS
        self._backends: tuple[Backend, ...] = ()
        self._ready: tuple[Backend, ...] = ()
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self._thread.start()
        self._closed = False
        self._run(self._listen())
        self._prober = self._run(self._start_probing())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, path: str = "", scheme: str = "https") -> str:
        """The address of the service."""
        return f"{scheme}://{LOOPBACK}:{self.port}{path}"

    @property
    def ready_backends(self) -> tuple[Backend, ...]:
        """The backends that get new connections now."""
        return self._ready

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def set_backends(self, backends: Iterable[Backend], wait_ready: float = 30.0) -> None:
        """Replaces the backends and returns when all of them are ready (`wait_ready` 0 does not wait)."""
        wanted = tuple(backends)
        self._backends = wanted
        self._run(self._probe())
        if wait_ready:
            wait(lambda: self._ready == wanted, wait_ready, "all backends are ready")

    @property
    def mode(self) -> Mode:
        """What happens with connections."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._run(self._switch(mode))

    def close(self) -> None:
        """Cuts all connections and frees the port; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._run(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _start_probing(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._probe_for_ever())

    async def _probe_for_ever(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await self._probe()

    async def _probe(self) -> None:
        backends = self._backends
        up = await asyncio.gather(*(self._is_ready(backend) for backend in backends))
        if backends == self._backends:
            self._ready = tuple(backend for backend, ready in zip(backends, up, strict=True) if ready)

    async def _is_ready(self, backend: Backend) -> bool:
        return not backend.ready_url or await asyncio.to_thread(answers, backend.ready_url)

    async def _switch(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.REFUSE and self._server is not None:
            self._server.close()
            self._server = None
        elif mode is not Mode.REFUSE and self._server is None:
            await self._listen()
        await self._cut()

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        # What was accepted last becomes a task, and what is cut a closed transport, some turns later.
        for _ in range(LAST_TURNS):
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0)

    async def _cut(self) -> None:
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            # Cut: whoever is at the other end sees the connection break.
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.BLACK_HOLE:
            while await reader.read(CHUNK):
                pass
            return
        upstream = await self._connect()
        if upstream is None:
            return
        far_reader, far_writer = upstream
        try:
            forth = asyncio.create_task(_copy(reader, far_writer))
            await _copy(far_reader, writer)
            forth.cancel()
            await asyncio.gather(forth, return_exceptions=True)
        finally:
            far_writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connects to the next ready backend, trying each once."""
        ready = self._ready
        for _ in ready:
            self._turn += 1
            backend = ready[self._turn % len(ready)]
            with contextlib.suppress(OSError, TimeoutError):
                return await asyncio.wait_for(
                    asyncio.open_connection(backend.host, backend.port), CONNECT_SECONDS
                )
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
