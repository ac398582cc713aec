"""Shows the figures of a run as tables or JSON; computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from bench.creation_figures import PACE_PER_SECOND, CreationFigures, CreationTargets
from bench.creations import CLIENTS
from bench.doors import MUTATED, OTHER
from bench.figures import LARGE_LIMIT_SECONDS, MEMORY_LIMIT_BYTES, OURS, Figures, Ratio
from bench.measures import Measure
from bench.processes import Memory
from bench.reviews import LARGE
from bench.rounds import Plan

BUSY_LOAD = 0.9
TITLES = {
    "watch": "Reading and following the pods of a large cluster",
    "judge": "What a cycle computes",
    "cycle": "Whole cycles on a real Prometheus",
}


class Run(msgspec.Struct, frozen=True):
    """Everything that one run found out; what was not asked for is empty or None.

    Attributes:
        plan: How much of the webhook was measured.
        figures: Each server under each workload.
        ratios: Ours against the others.
        memory: Of our webhook, after all reviews.
        creations: Pod creations by the webhooks that they pass.
        creation_targets: Whether a cluster is better off with ours.
        parts: The figures of the other parts, by part.
    """

    plan: Plan
    figures: tuple[Figures, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    memory: Memory | None = None
    creations: tuple[CreationFigures, ...] = ()
    creation_targets: CreationTargets | None = None
    parts: Mapping[str, Sequence[Measure]] = {}


def as_json(run: Run) -> str:
    """Gives the run as one JSON document."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2).decode()


def show(run: Run, console: Console) -> None:
    """Prints the figures, the ratios beside their targets, and memory."""
    if run.figures and run.memory:
        console.print(_figures_table(run))
        console.print(_ratios_table(run.ratios))
        console.print(_memory_line(run.memory))
        for line in _large_lines(run.figures):
            console.print(line)
    if run.creations and run.creation_targets:
        console.print(_creations_table(run))
        for line in _creation_lines(run.creation_targets):
            console.print(line)
    for part, measures in run.parts.items():
        console.print(_measures_table(part, measures))
    for remark in (*remarks(run.figures), *creation_remarks(run.creations)):
        console.print(f"[yellow]{remark}[/yellow]")


def remarks(figures: Sequence[Figures]) -> list[str]:
    """Says where the load generator rather than the server may have been the limit."""
    return [
        f"{one.server}, {one.workload}: the load generator used {one.load_share:.0%} of its core;"
        " trust the CPU per review rather than the rate"
        for one in figures
        if one.load_share > BUSY_LOAD
    ]


def creation_remarks(figures: Sequence[CreationFigures]) -> list[str]:
    """Says where creations came faster than the machine could take them."""
    return [
        f"{one.door}: {one.creations_per_second:,.0f} creations a second were possible; at a pace of"
        f" {PACE_PER_SECOND} they had to queue, and latency tells how long the queue was"
        for one in figures
        if one.creations_per_second < PACE_PER_SECOND
    ]


def _figures_table(run: Run) -> Table:
    plan = run.plan
    what = f"medians of {plan.rounds} rounds, {plan.connections} connections, one core each, TLS"
    title = f"Mutating GPU pods: {what}"
    table = Table(title=title)
    table.add_column("server")
    table.add_column("reviews of")
    for heading in ("reviews/s", "CPU/review", "p50", "p99", "memory"):
        table.add_column(heading, justify="right")
    for one in run.figures:
        table.add_row(
            one.server,
            one.workload,
            f"{one.reviews_per_second:,.0f}",
            micro(one.cpu_seconds_per_review),
            milli(one.p50_seconds),
            milli(one.p99_seconds),
            mega(one.memory_bytes),
            style="bold" if one.server == OURS else None,
        )
    return table


def _ratios_table(ratios: Sequence[Ratio]) -> Table:
    table = Table(title=f"{OURS} against them: medians of the ratios within each round")
    table.add_column("against")
    table.add_column("reviews of")
    for heading in ("per core (CPU)", "reviews/s", "target per core"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for one in ratios:
        target = "" if one.target is None else f"≥ {one.target:g}"
        mark = "" if one.reached is None else verdict(reached=one.reached)
        table.add_row(one.comparator, one.workload, times(one.per_core), times(one.per_second), target, mark)
    return table


def _memory_line(memory: Memory) -> str:
    mark = verdict(reached=memory.peak < MEMORY_LIMIT_BYTES)
    limit = mega(MEMORY_LIMIT_BYTES)
    return f"{OURS}: resident {mega(memory.now)}, at most {mega(memory.peak)}; target < {limit}: {mark}"


def _large_lines(figures: Sequence[Figures]) -> list[str]:
    """Says whether one large pod alone is answered in time."""
    limit = milli(LARGE_LIMIT_SECONDS)
    return [
        f"{OURS}: one pod of {one.workload} takes {milli(one.p50_seconds)} (p50); target < {limit}:"
        f" {verdict(reached=one.p50_seconds < LARGE_LIMIT_SECONDS)}"
        for one in figures
        if one.server == OURS and one.workload == LARGE.name
    ]


def _creations_table(run: Run) -> Table:
    pace = f"{PACE_PER_SECOND} a second, then {CLIENTS} clients as fast as it goes"
    table = Table(title=f"Creating GPU pods on the API server: medians of {run.plan.rounds} rounds, {pace}")
    table.add_column("pods pass")
    for heading in ("p50", "p99", "added to p50", "creations/s"):
        table.add_column(heading, justify="right")
    for one in run.creations:
        table.add_row(
            one.door,
            milli(one.p50_seconds),
            milli(one.p99_seconds),
            milli(one.added_p50_seconds),
            f"{one.creations_per_second:,.0f}",
            style="bold" if one.door == MUTATED.name else None,
        )
    return table


def _creation_lines(targets: CreationTargets) -> tuple[str, str]:
    """Says whether a cluster is better off with ours than with the other."""
    difference = targets.added_p50_seconds
    relation = "more" if difference > 0 else "less"
    added = f"{milli(abs(difference))} {relation} than {OTHER.name}; target: no more"
    rate = f"{times(targets.per_second)} times as many pods a second as with {OTHER.name}; target ≥ 1"
    return (
        f"{OURS} adds {added}: {verdict(reached=targets.is_quicker)}",
        f"{OURS}: {rate}: {verdict(reached=targets.lets_more_through)}",
    )


def _measures_table(part: str, measures: Sequence[Measure]) -> Table:
    table = Table(title=TITLES.get(part, part))
    for heading in (OURS, "", "below", "", "against", "", "ratio"):
        table.add_column(heading, justify="left" if heading in (OURS, "against") else "right")
    for one in measures:
        limit = "" if one.limit is None else amount(one.limit, one.unit)
        mark = "" if one.reached is None else verdict(reached=one.reached)
        theirs = "" if one.theirs is None else amount(one.theirs, one.unit)
        ratio = "" if one.ratio is None else f"{one.ratio:.1f}"
        table.add_row(one.what, amount(one.ours, one.unit), limit, mark, one.comparator, theirs, ratio)
    return table


def amount(value: float, unit: str) -> str:
    """Writes a figure with its unit, to three digits where it is small."""
    digits = 0 if value >= 100 or float(value).is_integer() else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def verdict(*, reached: bool) -> str:
    """Says whether a target is reached, in colour."""
    return "[green]reached[/green]" if reached else "[red]not reached[/red]"


def times(ratio: float) -> str:
    """Writes a ratio with two digits."""
    return f"{ratio:.2f}"


def micro(seconds: float) -> str:
    """Writes seconds as microseconds."""
    return f"{seconds * 1e6:,.0f} µs"


def milli(seconds: float) -> str:
    """Writes seconds as milliseconds."""
    return f"{seconds * 1e3:.2f} ms"


def mega(size_bytes: int) -> str:
    """Writes bytes as megabytes."""
    return f"{size_bytes / 1e6:.1f} MB"
