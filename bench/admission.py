"""The benchmark of the webhook: starts all, checks that they decide alike, compares; it times nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

import msgspec

from bench import gate
from bench.creation_figures import compare_creations, summarize_creations
from bench.creations import measure_creations
from bench.figures import OURS, TARGETS, Figures, Ratio, compare, summarize
from bench.processes import allowed_cores, choose_cores, memory_of
from bench.programs import ensure_programs
from bench.report import Run
from bench.reviews import WORKLOADS, Workload, reviews
from bench.rounds import Plan, Samples, measure, write_bodies
from bench.servers import Bench, poster, running
from sandbox.progress import Progress


class CoresError(RuntimeError):
    """This machine has too few cores to keep servers and load apart."""


ADMISSION, CREATIONS = "admission", "creations"
PARTS = (ADMISSION, CREATIONS)


def run(plan: Plan, say: Callable[[str], None], parts: Collection[str] = PARTS) -> Run:
    """Runs the benchmark of the webhook, or some parts of it.

    Raises:
        CoresError: only one core may be used.
        DisagreementError: a server decides otherwise than the others.
        LoadError: a server gave a wrong answer under load.
    """
    cores = choose_cores(allowed_cores())
    if cores is None:
        msg = "the benchmark needs two cores: one for the server, one for the load"
        raise CoresError(msg)
    programs = ensure_programs(os.environ, Progress.for_stderr())
    say("starting the control plane, the webhook and the comparators")
    with running(programs, cores) as bench:
        reviewed = _reviewed(bench, plan, say) if ADMISSION in parts else Run(plan)
        return _created(bench, reviewed, say) if CREATIONS in parts else reviewed


def _reviewed(bench: Bench, plan: Plan, say: Callable[[str], None]) -> Run:
    figures: list[Figures] = []
    ratios: list[Ratio] = []
    for workload in WORKLOADS:
        samples = _sampled(bench, plan, workload, say)
        memory = {server.name: memory_of(server.pid) for server in bench.servers}
        figures += [
            summarize(server, workload.name, found, memory[server].now) for server, found in samples.items()
        ]
        for other, target in TARGETS.items():
            wanted = target if workload.usual else None
            ratios.append(compare(other, workload.name, samples[OURS], samples[other], wanted))
    return Run(plan, tuple(figures), tuple(ratios), memory[OURS])


def _created(bench: Bench, run: Run, say: Callable[[str], None]) -> Run:
    say(f"pod creations on the API server: {run.plan.rounds} rounds")
    found = measure_creations(bench, run.plan, say)
    targets = compare_creations(found)
    return msgspec.structs.replace(run, creations=summarize_creations(found), creation_targets=targets)


def _sampled(bench: Bench, plan: Plan, workload: Workload, say: Callable[[str], None]) -> Samples:
    bodies = reviews(workload)
    gate.check({server.name: poster(server) for server in bench.servers}, bodies)
    say(f"{workload.name}: {len(bodies)} reviews, decided alike by all; {plan.total_seconds:.0f} s of load")
    folder = write_bodies(bench.sandbox.dir / f"reviews-{WORKLOADS.index(workload)}", bodies)
    return measure(bench, plan.alone() if workload.alone else plan, folder, say)
