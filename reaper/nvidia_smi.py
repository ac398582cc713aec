"""Reads what `nvidia-smi --query-gpu=… --format=csv` prints, and judges its cards; knows no pod and no file.

For nodes without any exporter, and only to report: the tool shows what a card did in its last fraction of a
second, so that it can prove activity, but idleness only over many samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from statistics import fmean, median

from msgspec import Struct

from policy.errors import FieldError, InvalidError
from policy.terms import Statistic, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings

MEBI = 1024 * 1024
LONGEST_LINE = 20_000
NOT_THERE = re.compile(r"\[?(N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU is lost.*)\]?")
TIME_FORMATS = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S")
ACTIVITY = ("utilization.gpu", "utilization.memory", "utilization.encoder", "utilization.decoder")
FURTHER_ACTIVITY = ("utilization.jpeg", "utilization.ofa")
ERRORS = ("ecc.errors.uncorrected.volatile.total", "retired_pages.pending", "remapped_rows.failure")
IDENTITY = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index")
EXAMPLE = (
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,utilization.gpu,utilization.memory,memory.used,"
    "mig.mode.current --format=csv -l 15"
)


class Sample(Struct, frozen=True):
    """One line: percentages by column, None for what the card does not tell; bytes of memory in use."""

    card: str
    name: str
    at: datetime | None
    activity: tuple[float | None, ...]
    memory: int | None
    fault: str
    partitioned: bool


class CardVerdict(Struct, frozen=True):
    """What is known of a card: `maximum` in percent, `memory` the largest use in bytes, `span` in seconds."""

    card: str
    name: str
    kind: VerdictKind
    reason: Reason
    samples: int
    span: float
    maximum: float | None
    memory: int | None


def read_samples(lines: Iterable[str], where: str) -> list[Sample]:
    """Reads the lines of one recording; `where` names it in errors.

    Raises:
        InvalidError: it has no header of the query, or none of its lines can be read.
    """
    header: list[str] | None = None
    found: list[Sample] = []
    errors: list[FieldError] = []
    for number, line in enumerate(lines, 1):
        # The tool quotes nothing, and no name of a card has a comma.
        cells = [cell.strip() for cell in line[:LONGEST_LINE].split(",")]
        if _is_header(cells):
            header = [_column(cell) for cell in cells]
        elif header is not None and len(cells) == len(header):
            sample = _sample(dict(zip(header, cells, strict=True)))
            found += [sample] if sample is not None else []
        elif header is not None and any(cells):
            wrong = f"has {len(cells)} of {len(header)} cells"
            errors.append(FieldError(f"{where}: line {number}", wrong))
    if header is None:
        raise InvalidError([FieldError(where, f"has no header of the query; make it with: {EXAMPLE}")])
    if not found:
        raise InvalidError(errors or [FieldError(where, "names no card: query the uuid or the index")])
    return found


def judge_cards(samples: Sequence[Sample], terms: Terms, settings: JudgeSettings) -> list[CardVerdict]:
    """Judges each card over the last `terms.after` of the recording, in the order of the cards."""
    by_card: dict[str, list[Sample]] = {}
    for sample in samples:
        by_card.setdefault(sample.card, []).append(sample)
    newest = max((one.at for one in samples if one.at is not None), default=None)
    return [_judge(card, by_card[card], terms, settings, newest) for card in sorted(by_card)]


def _judge(
    card: str, all_samples: list[Sample], terms: Terms, settings: JudgeSettings, newest: datetime | None
) -> CardVerdict:
    times = sorted({one.at for one in all_samples if one.at is not None})
    begin = newest - timedelta(seconds=terms.after.seconds) if newest is not None else None
    samples = [one for one in all_samples if begin is None or one.at is None or one.at > begin]
    maximum = max((value for one in samples for value in one.activity if value is not None), default=None)
    memory = max((one.memory for one in samples if one.memory is not None), default=None)
    kind, reason = _verdict(
        samples, [time for time in times if begin and time > begin], terms, settings, newest
    )
    span = (times[-1] - times[0]).total_seconds() if times else 0.0
    return CardVerdict(card, all_samples[-1].name, kind, reason, len(samples), span, maximum, memory)


def _verdict(
    samples: Sequence[Sample],
    times: Sequence[datetime],
    terms: Terms,
    settings: JudgeSettings,
    newest: datetime | None,
) -> tuple[VerdictKind, Reason]:
    """Anything that is missing or odd is Unknown; activity is shown by a single sample."""
    columns = [[value for value in column if value is not None] for column in _columns(samples)]
    odd = any(not 0 <= value <= 100 for column in columns for value in column)
    if any(_reading(column, terms) >= terms.utilization for column in columns if column):
        return VerdictKind.ACTIVE, Reason.ABOVE_THRESHOLD
    if odd:
        return VerdictKind.UNKNOWN, Reason.GARBAGE_SAMPLES
    if any(one.partitioned for one in samples):
        # The card's own utilization says nothing of its instances.
        return VerdictKind.UNKNOWN, Reason.UNSUPPORTED_SOURCE
    if any(one.fault for one in samples):
        return VerdictKind.UNKNOWN, Reason.DEVICE_FAULT
    if any(one.activity[0] is None for one in samples):
        return VerdictKind.UNKNOWN, Reason.NO_SERIES
    if len(times) < 2 or newest is None:
        return VerdictKind.UNKNOWN, Reason.LOW_COVERAGE
    interval = median((later - earlier).total_seconds() for earlier, later in pairwise(times))
    if (newest - times[-1]).total_seconds() > max(3 * interval, settings.fresh_seconds):
        return VerdictKind.UNKNOWN, Reason.STALE
    if interval > terms.after.seconds or len(times) < settings.coverage * terms.after.seconds / interval:
        return VerdictKind.UNKNOWN, Reason.LOW_COVERAGE
    return _memory(samples, terms)


def _columns(samples: Sequence[Sample]) -> Iterable[Sequence[float | None]]:
    """The samples of each signal."""
    return zip_longest(*(one.activity for one in samples))


def _reading(column: Sequence[float], terms: Terms) -> float:
    """What the threshold is compared with: the largest possible value, or the mean of those."""
    valid = [value for value in column if 0 <= value <= 100]
    if not valid:
        return 0.0
    return fmean(valid) if terms.statistic is Statistic.AVERAGE else max(valid)


def _memory(samples: Sequence[Sample], terms: Terms) -> tuple[VerdictKind, Reason]:
    """The terms' look at memory, which only an absolute limit allows here."""
    if terms.memory is None:
        return VerdictKind.IDLE, Reason.BELOW_THRESHOLD
    used = [one.memory for one in samples]
    limit = terms.memory.bytes
    if limit is None or any(value is None for value in used):
        return VerdictKind.UNKNOWN, Reason.MEMORY_UNKNOWN
    held = max(value for value in used if value is not None)
    below = held < limit
    return (VerdictKind.IDLE, Reason.BELOW_THRESHOLD) if below else (VerdictKind.ACTIVE, Reason.MEMORY_HELD)


def _is_header(cells: Sequence[str]) -> bool:
    columns = {_column(cell) for cell in cells}
    return bool(columns & {*IDENTITY}) and bool(
        columns & {*ACTIVITY, *FURTHER_ACTIVITY, "memory.used", "name"}
    )


def _column(cell: str) -> str:
    """The name of a column without its unit: `memory.used [MiB]`."""
    return cell.partition(" [")[0].strip().lower()


def _sample(row: dict[str, str]) -> Sample | None:
    card = next((row[column] for column in IDENTITY if row.get(column)), "")
    if not card or NOT_THERE.fullmatch(card):
        return None
    memory = _value(row.get("memory.used", ""))
    faults = [column for column in ERRORS if _is_fault(row.get(column, ""))]
    further = tuple(_value(row[column]) for column in FURTHER_ACTIVITY if column in row)
    return Sample(
        card=card,
        name=row.get("name", ""),
        at=_time(row.get("timestamp", "")),
        activity=(*(_value(row.get(column, "")) for column in ACTIVITY), *further),
        memory=None if memory is None else int(memory * MEBI),
        fault=", ".join(faults),
        partitioned=row.get("mig.mode.current", "").lower() == "enabled",
    )


def _value(text: str) -> float | None:
    """A number with or without its unit; None for what is not there."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:\s*(?:%|MiB))?", text)
    return float(found[1]) if found else None


def _is_fault(text: str) -> bool:
    return text.lower() in {"yes", "true"} or (_value(text) or 0) > 0


def _time(text: str) -> datetime | None:
    """The node's own time; only differences of it are used, so its zone does not matter."""
    for form in TIME_FORMATS:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - the tool prints no zone
        except ValueError:
            continue
    return None
