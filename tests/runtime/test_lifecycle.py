from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from runtime.lifecycle import PartFailed, run_together, run_until_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_main_to_stop_and_its_code_is_returned(number: signal.Signals) -> None:
    """The process ends in order, on the fast event loop."""

    async def main(stop: asyncio.Event) -> int:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        os.kill(os.getpid(), number)
        await stop.wait()
        return 7

    assert run_until_signal(main) == 7


def test_no_code_is_success_and_the_handlers_are_given_back() -> None:
    """What ran before runs after."""

    async def main(_: asyncio.Event) -> None:
        return None

    before = signal.getsignal(signal.SIGTERM)
    assert run_until_signal(main) == 0
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_signal_does_not_wait() -> None:
    """Whoever presses twice means it."""

    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.get_running_loop().create_future()

    assert run_until_signal(main) == 128 + signal.SIGTERM


def test_an_error_of_main_is_raised() -> None:
    """It is not turned into a code here."""

    async def main(_: asyncio.Event) -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        run_until_signal(main)


class Part:
    """A part that notes that it began and how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = ""

    async def run(self, until: Callable[[], Any]) -> None:
        """Runs until the awaitable is done."""
        self.begun.set()
        try:
            await until()
            self.ended = "by itself"
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise


async def forever() -> None:
    """Never ends."""
    await asyncio.get_running_loop().create_future()


async def test_a_failing_part_is_named_and_stops_the_others() -> None:
    """Half a process is worse than none."""
    other = Part()

    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(PartFailed, match="watch: ValueError: broken") as caught:
        await run_together(asyncio.Event(), {"server": other.run(forever)}, {"watch": fail()})
    assert caught.value.part == "watch"
    assert isinstance(caught.value.__cause__, ValueError)
    assert other.ended == "cancelled"


async def test_a_part_that_ends_unasked_counts_as_failed() -> None:
    """A watch that returns would leave a process that looks healthy."""

    async def end() -> None:
        return None

    with pytest.raises(PartFailed, match="watch: ended by itself"):
        await run_together(asyncio.Event(), {"server": forever()}, {"watch": end()})


async def test_at_the_stop_servers_end_first_while_the_background_still_runs() -> None:
    """Requests in progress still need the caches."""
    stop = asyncio.Event()
    server, cache = Part(), Part()
    seen: list[str] = []

    async def drain() -> None:
        await stop.wait()
        seen.append(cache.ended)

    running = asyncio.create_task(
        run_together(stop, {"server": server.run(drain)}, {"cache": cache.run(forever)})
    )
    await server.begun.wait()
    await cache.begun.wait()
    stop.set()
    await running
    assert (server.ended, cache.ended, seen) == ("by itself", "cancelled", [""])


async def test_a_server_that_does_not_drain_in_time_is_cancelled() -> None:
    """The kubelet would kill it a little later."""
    stop = asyncio.Event()
    stop.set()
    server = Part()
    await run_together(stop, {"server": server.run(forever)}, grace_seconds=0.01)
    assert server.ended == "cancelled"


async def test_cancelling_the_whole_cancels_every_part() -> None:
    """Nothing is left running."""
    one, two = Part(), Part()
    running = asyncio.create_task(
        run_together(asyncio.Event(), {"a": one.run(forever)}, {"b": two.run(forever)})
    )
    await one.begun.wait()
    await two.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (one.ended, two.ended) == ("cancelled", "cancelled")
