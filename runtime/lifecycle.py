"""Runs a process until a signal: event loop, parts that fall together. Knows nothing of what parts do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import structlog

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_SECONDS = 30.0
log = structlog.get_logger(__name__)


class PartFailed(Exception):  # noqa: N818 - reads as a sentence: part X failed
    """A part of the process ended although nobody asked; `__cause__` is its error, if it had one."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self.part = part


def run_until_signal(main: Callable[[asyncio.Event], Awaitable[int | None]]) -> int:
    """Runs `main(stop)` on uvloop and returns its exit code (None is 0).

    SIGTERM or SIGINT sets `stop`; a second signal cancels `main`, then the code is 128 + the signal's number.
    """
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(_supervise(main))


async def run_together(
    stop: asyncio.Event,
    serving: Mapping[str, Coroutine[Any, Any, object]],
    background: Mapping[str, Coroutine[Any, Any, object]] | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Runs named parts until `stop`; if one ends before, all are cancelled and PartFailed names it.

    After `stop`, the `serving` parts have `grace_seconds` to end by themselves while the `background`
    (caches, lease) still runs; then everything left is cancelled.
    """
    servers: dict[asyncio.Task[object], str] = {
        asyncio.create_task(coroutine, name=name): name for name, coroutine in serving.items()
    }
    others: dict[asyncio.Task[object], str] = {
        asyncio.create_task(coroutine, name=name): name for name, coroutine in (background or {}).items()
    }
    told = asyncio.ensure_future(stop.wait())
    names = servers | others
    try:
        await asyncio.wait({told, *names}, return_when=asyncio.FIRST_COMPLETED)
        _raise_failed(names, stopping=stop.is_set())
        if servers:
            await asyncio.wait(servers, timeout=grace_seconds)
        _raise_failed(names, stopping=True)
    finally:
        for task in (told, *names):
            task.cancel()
        await asyncio.gather(told, *names, return_exceptions=True)


def _raise_failed(names: Mapping[asyncio.Task[object], str], *, stopping: bool) -> None:
    for task, name in names.items():
        if not task.done():
            continue
        error = None if task.cancelled() else task.exception()
        if error is not None:
            raise PartFailed(name, f"{type(error).__name__}: {error}") from error
        if not stopping:
            raise PartFailed(name, "ended by itself")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # no wheel for this interpreter: slower, not different
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _supervise(main: Callable[[asyncio.Event], Awaitable[int | None]]) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    task = asyncio.ensure_future(main(stop))
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        log.info("signal received", signal=number.name, again=stop.is_set())
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await task or 0
    except asyncio.CancelledError:
        if len(received) < 2:
            raise
        return 128 + received[-1]
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
