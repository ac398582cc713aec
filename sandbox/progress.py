"""Says on standard error what takes long, what is left and how long it took last; does none of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from sandbox.deadline import monotonic

HEARTBEAT_SECONDS = 30.0


@dataclass
class Step:
    """One step; `seconds` is how long it took, once it is over."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Progress:
    """Writes to a console when a step begins and ends, and every half minute in between."""

    console: Console

    @classmethod
    def for_stderr(cls) -> Progress:
        """Makes a progress that writes to standard error."""
        return cls(Console(stderr=True, highlight=False))

    def say(self, text: str) -> None:
        """Writes one line."""
        self.console.print(f"[dim]sandbox:[/dim] {text}")

    @contextlib.contextmanager
    def step(self, what: str, left: int, last_seconds: float | None) -> Iterator[Step]:
        """Announces a step, keeps saying that it runs, and says how long it took."""
        started = monotonic()
        step = Step()
        last = f", took {clock_text(last_seconds)} last time" if last_seconds else ""
        self.say(f"{what} ({left} more after this{last})")
        over = threading.Event()
        beat = threading.Thread(target=self._beat, args=(what, started, over), daemon=True)
        beat.start()
        try:
            with self._spinner(what):
                yield step
        finally:
            over.set()
            beat.join()
        step.seconds = round(monotonic() - started, 1)
        self.say(f"{what}: done in {clock_text(step.seconds)}")

    def _beat(self, what: str, started: float, over: threading.Event) -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            self.say(f"still {what}, for {clock_text(monotonic() - started)} now")

    def _spinner(self, what: str) -> contextlib.AbstractContextManager[object]:
        return self.console.status(what) if self.console.is_terminal else contextlib.nullcontext()


def clock_text(seconds: float) -> str:
    """Writes seconds as people read a stop-watch, such as `3:40`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
