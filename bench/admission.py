"""The benchmark of the webhook: starts everything, checks that all decide alike, measures, compares."""

from __future__ import annotations

import os
from collections.abc import Callable

from bench import gate
from bench.figures import OURS, TARGETS, Figures, Ratio, compare, summarize
from bench.processes import allowed_cores, choose_cores, memory_of
from bench.programs import ensure_programs
from bench.report import Run
from bench.reviews import SIZES, reviews
from bench.rounds import Plan, measure, write_bodies
from bench.servers import Bench, poster, running
from runtime.clock import SystemClock
from sandbox.progress import Progress


class CoresError(RuntimeError):
    """This machine has too few cores to keep servers and load apart."""


def run(plan: Plan, progress: Progress) -> Run:
    """Runs the whole benchmark.

    Raises:
        CoresError: only one core may be used.
        DisagreementError: a server decides otherwise than the others.
        LoadError: a server gave a wrong answer under load.
    """
    cores = choose_cores(allowed_cores())
    if cores is None:
        msg = "the benchmark needs two cores: one for the server, one for the load"
        raise CoresError(msg)
    programs = ensure_programs(os.environ, progress)
    progress.say("starting the control plane, the webhook and the comparators")
    with running(programs, cores, SystemClock()) as bench:
        return _measured(bench, plan, progress.say)


def _measured(bench: Bench, plan: Plan, say: Callable[[str], None]) -> Run:
    figures: list[Figures] = []
    ratios: list[Ratio] = []
    for size, size_bytes in SIZES.items():
        bodies = reviews(size_bytes)
        gate.check({server.name: poster(server) for server in bench.servers}, bodies)
        say(f"{size}: {len(bodies)} reviews, the same pods from all; {plan.total_seconds:.0f} s of load")
        folder = write_bodies(bench.sandbox.dir / f"reviews-{size_bytes}", bodies)
        samples = measure(bench, plan, folder, say)
        figures += [summarize(server, size, found) for server, found in samples.items()]
        ratios += [compare(other, size, samples[OURS], samples[other]) for other in TARGETS]
    memory = {server.name: memory_of(server.pid) for server in bench.servers}
    return Run(plan, tuple(figures), tuple(ratios), memory)
