"""What a soak found, as a table for people; decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandbox.soak.faults import Kind
from sandbox.soak.memory import Growth


@dataclass(frozen=True)
class Report:
    """What a soak found.

    Attributes:
        seed: What all that is random came from.
        seconds: How long faults came.
        faults: How often each came.
        pods: Pods that ever were there.
        evicted: Evictions that the API server accepted.
        handovers: Seconds until another led, by fault.
        cycles: Cycles by result, of the replicas that could still be asked.
        growths: The memory of each process.
        wrongs: What must not have happened.
    """

    seed: int
    seconds: float
    faults: Counter[Kind]
    pods: int
    evicted: int
    handovers: Mapping[Kind, Sequence[float]]
    cycles: Mapping[str, float]
    growths: Sequence[Growth]
    wrongs: Sequence[str]

    @property
    def good(self) -> bool:
        """Whether nothing went wrong."""
        return not self.wrongs


def show(report: Report, console: Console) -> None:
    """Prints the tables and what went wrong."""
    console.print(_faults(report))
    console.print(_memory(report.growths))
    cycles = ", ".join(f"{count:.0f} {result}" for result, count in report.cycles.items())
    console.print(f"{report.pods} pods, {report.evicted} evicted; cycles: {cycles}; seed {report.seed}")
    for wrong in report.wrongs:
        console.print(f"[bold red]✘[/bold red] {escape(wrong)}", highlight=False)
    if report.good:
        said = "no pod in use was evicted, none twice, each with its record; memory is flat"
        console.print(f"[green]✔[/green] {said}", highlight=False)


def _faults(report: Report) -> Table:
    table = Table(title=f"{report.seconds / 60:.1f} minutes of faults", box=box.SIMPLE_HEAD)
    table.add_column("fault")
    table.add_column("times", justify="right")
    table.add_column("another led after")
    for kind, count in sorted(report.faults.items()):
        table.add_row(kind, str(count), ", ".join(f"{one:.1f} s" for one in report.handovers.get(kind, ())))
    return table


def _memory(growths: Sequence[Growth]) -> Table:
    table = Table(title="Resident memory of the reapers", box=box.SIMPLE_HEAD)
    for heading in ("process", "lived", "first", "last", "growth"):
        table.add_column(heading, justify="left" if heading == "process" else "right")
    for one in growths:
        if one.samples:
            (_, first), (lived, last) = (one.settled or one.samples)[0], one.samples[-1]
            rate = one.per_minute
            said = "too short to tell" if rate is None else f"{rate / 1e6:+.2f} MB a minute"
            table.add_row(one.name, f"{lived:.0f} s", f"{first / 1e6:.1f} MB", f"{last / 1e6:.1f} MB", said)
    return table
