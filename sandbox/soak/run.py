"""Runs a soak: stage, faults while pods come and go, and the question what went wrong; knows no fault."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests

from sandbox.api import ApiError
from sandbox.binaries import cache_dir
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import monotonic, wait
from sandbox.install import install_chart
from sandbox.soak import witness
from sandbox.soak.breaker import Breaker
from sandbox.soak.cast import Cast
from sandbox.soak.faults import Blow, Kind, blows
from sandbox.soak.reapers import NAMES, OBSERVER, Reapers
from sandbox.soak.report import Report
from sandbox.soak.truth import wrongs

FIRST_SECONDS = 150.0
WEIGH_SECONDS = 2.0
LOGS = "soak-logs"


@dataclass(frozen=True)
class SoakOptions:
    """How long and how hard.

    Attributes:
        seconds: How long faults come.
        seed: What all that is random comes from.
        pause: The shortest and longest peace between two faults, in seconds.
        kinds: The faults.
        kubernetes: Another pinned Kubernetes release; empty for the default.
    """

    seconds: float
    seed: int
    pause: tuple[float, float] = (4.0, 20.0)
    kinds: Sequence[Kind] = tuple(Kind)
    kubernetes: str = ""


@dataclass
class _Soak:
    """One soak under way."""

    options: SoakOptions
    sandbox: Sandbox
    cast: Cast
    reapers: Reapers
    say: Callable[[str], None]
    struck: Counter[Kind] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    def run(self, rng: random.Random) -> Report:
        """Lets faults come until the time is over, then waits for peace, and judges."""
        breaker = Breaker(self.sandbox, self.reapers, self.cast, rng, self.linger)
        for name in (*NAMES, OBSERVER):
            self.reapers.start(name)
        self.expect_eviction("before any fault")
        began = monotonic()
        for blow in blows(rng, self.options.pause, self.options.kinds):
            if monotonic() - began > self.options.seconds:
                break
            self.one(breaker, blow)
        lasted = monotonic() - began
        breaker.revive()
        self.say("peace: what is idle must go now")
        self.expect_eviction("after all faults")
        self.expect(lambda: not witness.open_records(self.sandbox), 60, "every record is completed")
        return self.judge(breaker, lasted)

    def one(self, breaker: Breaker, blow: Blow) -> None:
        """Peace, then one fault; what the soak itself could not do is told and tried no more."""
        try:
            self.linger(blow.pause, tend=True)
            detail = f" ({blow.answer})" if blow.answer else ""
            self.say(f"{blow.kind}{detail}, {blow.seconds:.0f} s")
            self.struck[blow.kind] += 1
            breaker.strike(blow)
        except (ApiError, requests.RequestException, TimeoutError) as error:
            self.troubles.append(f"{blow.kind}: {type(error).__name__}: {error}")

    def linger(self, seconds: float, *, tend: bool = False) -> None:
        """Lets time pass, in which memory is weighed, and pods go on if `tend`."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            threading.Event().wait(min(left, WEIGH_SECONDS))
            self.reapers.weigh()
            if tend:
                self.cast.tend()

    def expect_eviction(self, when: str) -> None:
        """Waits for one more eviction: a reaper that does nothing does nothing wrong."""
        before = len(witness.records(self.sandbox))

        def more() -> bool:
            self.linger(WEIGH_SECONDS, tend=True)
            return len(witness.records(self.sandbox)) > before

        self.expect(more, FIRST_SECONDS, f"a pod is evicted {when}")

    def expect(self, predicate: Callable[[], object], seconds: float, what: str) -> None:
        """Waits until something holds; that it never did is found wrong at the end."""
        try:
            wait(predicate, seconds, what, poll=0.5)
        except TimeoutError as error:
            self.troubles.append(str(error))

    def judge(self, breaker: Breaker, lasted: float) -> Report:
        """Compares what was done with what was true."""
        self.reapers.count_cycles()
        lives = self.cast.lives
        evicted = witness.evictions(self.sandbox, lives)
        recorded = [one["spec"]["pod"]["uid"] for one in witness.records(self.sandbox)]
        found = wrongs(lives, evicted, recorded, self.cast.living().keys())
        growing = [one for one in self.reapers.growths if not one.flat]
        found += [f"{one.name} grows by {(one.per_minute or 0) / 1e6:.2f} MB a minute" for one in growing]
        return Report(
            seed=self.options.seed,
            seconds=lasted,
            faults=self.struck,
            pods=len(lives),
            evicted=len(evicted),
            handovers=breaker.handovers,
            cycles=self.reapers.cycles,
            growths=self.reapers.growths,
            wrongs=[*found, *breaker.late, *self.troubles],
        )


def soak(options: SoakOptions, say: Callable[[str], None]) -> Report:
    """Runs a soak from nothing; `say` is told each fault. The logs of one that went wrong are kept."""
    rng = random.Random(options.seed)
    chosen = SandboxOptions(alertmanager=False, audit=True, kubernetes=options.kubernetes)
    with Sandbox.start(chosen) as sandbox:
        try:
            installation = install_chart(sandbox, {"policies": {"shipped": False}})
            cast = Cast(sandbox, rng)
            cast.enter()
            cast.wait_running()
            say(f"{len(cast.lives)} pods run; seed {options.seed}")
            report = _Soak(options, sandbox, cast, Reapers(installation), say).run(rng)
        except BaseException:
            say(f"logs are kept in {_keep_logs(sandbox)}")
            raise
        if not report.good:
            say(f"logs are kept in {_keep_logs(sandbox)}")
    return report


def _keep_logs(sandbox: Sandbox) -> Path:
    folder = cache_dir(os.environ) / LOGS
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sandbox.dir / "logs", folder)
    return folder
