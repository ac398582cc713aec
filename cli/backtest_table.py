"""What came of a backtest, per namespace and in all, with what it advises; plays nothing."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.printing import new_table, plain
from policy.counting import counted
from policy.durations import format_time
from policy.verdicts import REASONS, Reason
from reaper.plays import Play, Result
from reaper.tallies import HOUR, Advice, Tally, recommend, total
from reaper.tallies import document as tally_document

COLUMNS = ("NAMESPACE", "HELD", "IDLE", "UNKNOWN", "WARNED", "ACTIVE AGAIN", "TAKEN", "REGRET", "RECLAIMED")
STYLES = {Advice.ENFORCE: "bold green", Advice.WARN: "bold yellow", Advice.OBSERVE: "bold yellow"}
WORDS = {
    Advice.ENFORCE: "It can be enforced",
    Advice.WARN: "Only warn for now",
    Advice.OBSERVE: "Only observe for now",
}


def backtest_table(play: Play, result: Result, _width: int) -> RenderableType:
    """The whole answer; hours are device-hours."""
    table = new_table()
    for title in COLUMNS:
        table.add_column(title, justify="left" if title == "NAMESPACE" else "right", overflow="fold")
    by_waste = sorted(result.tallies.items(), key=lambda item: (-item[1].reclaimed_seconds, item[0]))
    for namespace, tally in by_waste:
        table.add_row(*_row(plain(namespace), tally))
    every = total(result.tallies.values())
    table.add_section()
    table.add_row(*_row(Text("all"), every), style="bold")
    return Group(
        _head(play, result), Text(), table, Text(), *_unknown(every), _advice(every), *_notes(play, result)
    )


def _row(name: Text, tally: Tally) -> list[RenderableType]:
    return [
        name,
        f"{tally.held_seconds / HOUR:.1f} h",
        f"{tally.idle_seconds / HOUR:.1f} h",
        f"{tally.unknown_share:.1%}",
        str(tally.warned),
        f"{tally.active_after_warning} ({tally.active_share:.0%})",
        f"{tally.taken} ({counted(tally.taken_devices, 'GPU')})",
        f"{tally.regretted} ({tally.regret_share:.1%})",
        f"{tally.reclaimed_seconds / HOUR:.1f} h",
    ]


def _head(play: Play, result: Result) -> Text:
    which = "the proposed policies" if play.proposed else "the present policies"
    span = f"{play.since:%Y-%m-%d %H:%MZ} to {play.until:%Y-%m-%d %H:%MZ}"
    each = round(result.queries / result.moments) if result.moments else 0
    asked = f"{counted(result.moments, 'moment')}, {counted(each, 'query', 'queries')} each"
    pods = counted(len(result.pods), "pod")
    return Text(f"What {which} would have done from {span}; {asked}, {pods}")


def _unknown(tally: Tally) -> list[RenderableType]:
    if not tally.unknown:
        return []
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    for name, seconds in tally.unknown.most_common(5):
        known = name in set(Reason)
        grid.add_row(
            f"  {seconds / HOUR:.1f} h", Text(name, "yellow"), REASONS[Reason(name)] if known else ""
        )
    return [Text("Unknown, by reason", style="bold"), grid, Text()]


def _advice(tally: Tally) -> Text:
    found = recommend(tally)
    return Text.assemble((f"{WORDS[found.advice]}: ", STYLES[found.advice]), "; ".join(found.sentences) + ".")


def _notes(play: Play, result: Result) -> list[Text]:
    notes = []
    if result.held:
        held = counted(result.held, "moment")
        notes.append(f"at {held} Prometheus had no full answer ({result.problem}): nothing was done")
    if result.braked:
        notes.append(f"at {counted(result.braked, 'moment')} the brake held everything")
    if result.assumed:
        otherwise = play.census.otherwise.value
        pods = counted(len(result.assumed), "pod")
        notes.append(f"of {pods} the class is not known and taken for {otherwise} (--class)")
    for name, broken in play.policies.invalid.items():
        notes.append(f"policy {name} is invalid: {broken.errors[0]}")
    return [plain(note, "dim") for note in notes]


def document(play: Play, result: Result) -> dict[str, Any]:
    """The answer as docs/backtest.md has it."""
    every = total(result.tallies.values())
    found = recommend(every)
    return {
        "since": format_time(play.since),
        "until": format_time(play.until),
        "stepSeconds": round(play.step.total_seconds()),
        "proposed": play.proposed,
        "moments": result.moments,
        "queries": result.queries,
        "momentsWithoutAnswer": result.held,
        "momentsBraked": result.braked,
        "pods": len(result.pods),
        "podsOfAssumedClass": len(result.assumed),
        "total": tally_document(every),
        "namespaces": {name: tally_document(one) for name, one in sorted(result.tallies.items())},
        "recommendation": {"advice": found.advice.value, "why": list(found.sentences)},
    }
