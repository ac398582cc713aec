"""Measures all servers in interleaved rounds with the load generator on its own core; judges nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bench.figures import SERVERS, Sample
from bench.processes import pinned
from bench.reviews import Review
from bench.servers import Bench, Server

Samples = Mapping[str, list[Sample]]
"""Samples by the name of the server, one per round."""


class Plan(msgspec.Struct, frozen=True):
    """How much is measured: each server for `seconds` in each round, over so many connections."""

    rounds: int = 5
    seconds: float = 1.0
    connections: int = 8

    def alone(self) -> Plan:
        """The same with one review at a time."""
        return msgspec.structs.replace(self, connections=1)

    @property
    def total_seconds(self) -> float:
        """How long the measuring of one workload takes."""
        return len(SERVERS) * self.rounds * (self.seconds + WARM_UP_SECONDS)


WARM_UP_SECONDS = 0.3
NUMBERS = 20_011
"""How far apart the rounds count their reviews, so that a round repeats none of the one before."""


class LoadError(RuntimeError):
    """The load generator gave up, mostly because of a wrong answer; the message is its own."""


def write_bodies(folder: Path, reviews: tuple[Review, ...]) -> Path:
    """Writes reviews where the load generator reads them."""
    folder.mkdir()
    for review in reviews:
        (folder / f"{review.name}.json").write_bytes(review.body)
    return folder


def measure(bench: Bench, plan: Plan, bodies: Path, say: Callable[[str], None]) -> Samples:
    """Measures A B C, A B C, …, each round with another one first."""
    samples: dict[str, list[Sample]] = {server.name: [] for server in bench.servers}
    for number in range(plan.rounds):
        first = number % len(bench.servers)
        with bench.quiet():
            for server in (*bench.servers[first:], *bench.servers[:first]):
                sample = _load(bench, plan, bodies, server, number * NUMBERS)
                samples[server.name].append(sample)
        rates = ", ".join(f"{name} {_rate(found[-1])}/s" for name, found in samples.items())
        say(f"round {number + 1} of {plan.rounds}: {rates}")
    return samples


def _load(bench: Bench, plan: Plan, bodies: Path, server: Server, first: int) -> Sample:
    argv = [
        bench.programs.path("load"),
        f"-address={server.address}",
        f"-ca={server.ca}",
        f"-bodies={bodies}",
        f"-connections={plan.connections}",
        f"-pid={server.pid}",
        f"-first={first}",
        f"-warm-up={WARM_UP_SECONDS}s",
        f"-duration={plan.seconds}s",
    ]
    command = pinned(bench.cores.load, argv)
    limit = plan.seconds + 60
    ran = subprocess.run(
        command, env={"GOMAXPROCS": "1"}, capture_output=True, text=True, timeout=limit, check=False
    )
    if ran.returncode != 0:
        msg = f"{server.name}: {ran.stderr.strip()[-1000:]}"
        raise LoadError(msg)
    return msgspec.json.decode(ran.stdout, type=Sample)


def _rate(sample: Sample) -> str:
    return f"{sample.reviews / sample.seconds:,.0f}"
