"""Reads sources that an administrator adds to the built-in tables, strictly; knows no file and no flag."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from policy.errors import FieldError, InvalidError
from reaper.exporters import SOURCES
from reaper.rows import MOST_BYTES, MOST_COUNTED, MOST_WATTS, ROUNDING, prefixed
from reaper.sources import PROVING_ROLES, TEN_YEARS, Form, Metric, Role, Sharing, Source, forms

MOST_SOURCES: Final = 16
MOST_METRICS: Final = 32
"""Each metric costs queries in every cycle."""
PATH: Final = "sources"

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_METRIC_PREFIX: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_UNITS: Final = {
    Role.ACTIVITY: "%",
    Role.HOST: "%",
    Role.KERNEL: "s",
    Role.POWER: "W",
    Role.MEMORY: "B",
    Role.FREE: "B",
    Role.LIMIT: "B",
}
_EXPECTED: Final = {
    "role": f"one of {', '.join(Role)}",
    "sharing": f"one of {', '.join(Sharing)}",
    "name": "a text such as my-exporter",
    "scale": "a number such as 100",
    "metrics": "a list such as [{name: my_gpu_busy_ratio, role: activity, scale: 100, principal: true}]",
    "labels": "a map such as {namespace: namespace, pod: pod, container: container}",
    "device": "a list of labels such as [uuid]",
    "vendors": "a list such as [nvidia]",
}


class _Labels(Struct, frozen=True, forbid_unknown_fields=True):
    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


class _MetricRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    role: Role
    signal: str = ""
    scale: float = 1.0
    highest: float | None = None
    unit: str | None = None
    principal: bool = False
    where: dict[str, str] = msgspec.field(default_factory=dict)


class _Row(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One source as configuration writes it; what is not given is that of `like`, or nothing."""

    name: str
    like: str = ""
    enabled: bool = True
    metric_prefix: str = ""
    vendors: tuple[str, ...] | UnsetType = UNSET
    sharing: Sharing | UnsetType = UNSET
    labels: _Labels | UnsetType | None = UNSET
    device: tuple[str, ...] | UnsetType = UNSET
    device_prefix: str | UnsetType = UNSET
    instance: str | UnsetType = UNSET
    virtual: str | UnsetType = UNSET
    uid: tuple[str, ...] | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    undivided: tuple[str, ...] | UnsetType = UNSET
    rests: bool | UnsetType = UNSET
    by_card: tuple[str, ...] | UnsetType = UNSET
    metrics: tuple[_MetricRow, ...] | UnsetType = UNSET


def parse_sources(
    rows: Sequence[Mapping[str, Any]], path: str = PATH, built_in: tuple[Source, ...] = SOURCES
) -> tuple[Source, ...]:
    """The built-in sources with those of the rows: a row of a built-in name replaces that source.

    Raises:
        InvalidError: with everything that is wrong.
    """
    if not rows:
        return built_in
    errors: list[FieldError] = []
    if len(rows) > MOST_SOURCES:
        errors.append(FieldError(path, f"must be at most {MOST_SOURCES} sources (is {len(rows)})"))
    table = {source.name: source for source in built_in}
    given: set[str] = set()
    for index, raw in enumerate(rows):
        where = f"{path}[{index}]"
        row = _read(raw, where, errors)
        if row is None:
            continue
        if row.name in given:
            errors.append(FieldError(f"{where}.name", f"must be given once (is {row.name} again)"))
        given.add(row.name)
        if not row.enabled:
            errors += [] if row.name in table else [_unknown_name(f"{where}.name", row.name, built_in)]
            table.pop(row.name, None)
            continue
        source, found = _source(row, where, built_in)
        errors += found
        table[row.name] = source
    errors += _repeated(table, path)
    if errors:
        raise InvalidError(errors)
    return tuple(table.values())


def _read(raw: object, where: str, errors: list[FieldError]) -> _Row | None:
    try:
        return msgspec.convert(raw, _Row)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        field = place.rstrip("`")
        expected = _EXPECTED.get(field.rpartition(".")[2])
        worded = f"{message[:1].lower()}{message[1:]}"
        errors.append(FieldError(where + field, f"must be {expected} ({worded})" if expected else worded))
        return None


def _source(row: _Row, where: str, built_in: tuple[Source, ...]) -> tuple[Source, list[FieldError]]:
    """The source of a row, and what is wrong with it."""
    base = next((one for one in built_in if one.name == row.like), None)
    errors = [_unknown_name(f"{where}.like", row.like, built_in)] if row.like and base is None else []
    base = base or Source(name=row.name, sharing=Sharing.DEVICE, forms=(), device=(), metrics=(), vendors=())
    metrics = base.metrics if row.metrics is UNSET else tuple(_metric(one) for one in row.metrics)
    changes: dict[str, object] = {
        name: value
        for name in (
            "vendors",
            "sharing",
            "device",
            "instance",
            "virtual",
            "uid",
            "mode",
            "undivided",
            "rests",
        )
        if (value := getattr(row, name)) is not UNSET
    }
    changes |= {} if row.device_prefix is UNSET else {"prefix": row.device_prefix}
    changes |= {} if row.by_card is UNSET else {"by_card": row.by_card}
    changes |= {} if row.labels is UNSET else {"forms": _forms(row.labels)}
    source = replace(base, name=row.name, metrics=prefixed(metrics, row.metric_prefix), **changes)
    return source, [*errors, *_errors(row, source, where)]


def _forms(labels: _Labels | None) -> tuple[Form, ...]:
    return () if labels is None else forms(labels.namespace, labels.pod, labels.container)


def _metric(row: _MetricRow) -> Metric:
    highest = _highest(row.role, row.scale) if row.highest is None else row.highest
    return Metric(
        name=row.name,
        signal=row.signal or row.name,
        role=row.role,
        scale=row.scale,
        highest=highest,
        unit=_UNITS.get(row.role, "") if row.unit is None else row.unit,
        principal=row.principal,
        where=tuple(sorted(row.where.items())),
    )


def _highest(role: Role, scale: float) -> float:
    """The largest value that can be true, where a row does not say it."""
    if role in PROVING_ROLES:
        return 100.0 if scale == 1 else 100.0 * ROUNDING / scale if scale else 0.0
    if role is Role.KERNEL:
        return TEN_YEARS
    most = {"B": MOST_BYTES, "W": MOST_WATTS}.get(_UNITS.get(role, ""), MOST_COUNTED)
    return most / scale if scale else 0.0


def _errors(row: _Row, source: Source, where: str) -> Iterator[FieldError]:
    """Everything that is wrong with the values of a source."""
    if not _NAME.fullmatch(row.name):
        yield FieldError(f"{where}.name", f"must be a name such as my-exporter (is {row.name[:40]!r})")
    if not _METRIC_PREFIX.fullmatch(row.metric_prefix):
        yield FieldError(
            f"{where}.metricPrefix", f"must begin a metric's name (is {row.metric_prefix[:40]!r})"
        )
    for name, values in (("vendors", source.vendors), ("device", source.device), ("metrics", source.metrics)):
        if not values:
            yield FieldError(f"{where}.{name}", f"must be {_EXPECTED[name]}")
    if len(source.metrics) > MOST_METRICS and not row.like:
        yield FieldError(f"{where}.metrics", f"must be at most {MOST_METRICS} (is {len(source.metrics)})")
    yield from _label_errors(source, where)
    holders = [one for one in source.metrics if one.role is Role.HOLDER]
    if not source.forms and (holders or source.sharing is Sharing.SHARE):
        yield FieldError(f"{where}.labels", "must say which labels name the pod that holds a device or share")
    for index, one in enumerate(source.metrics if row.metrics is not UNSET else ()):
        yield from _metric_errors(one, f"{where}.metrics[{index}]")


def _label_errors(source: Source, where: str) -> Iterator[FieldError]:
    own = {"instance": source.instance, "virtual": source.virtual, "mode": source.mode}
    named = [(f".{key}", value) for key, value in own.items() if value]
    for key, values in (("device", source.device), ("uid", source.uid)):
        named += [(f".{key}[{index}]", value) for index, value in enumerate(values)]
    for form in source.forms[-1:]:
        named += [(".labels.namespace", form.namespace), (".labels.pod", form.pod)]
        named += [(".labels.container", form.container)] if form.container else []
    for place, value in named:
        if not _LABEL.fullmatch(value):
            yield FieldError(where + place, f"must be the name of a label such as uuid (is {value[:40]!r})")


def _metric_errors(metric: Metric, where: str) -> Iterator[FieldError]:
    if not _METRIC.fullmatch(metric.name):
        yield FieldError(f"{where}.name", f"must be the name of a metric (is {metric.name[:40]!r})")
    for name, value in (("scale", metric.scale), ("highest", metric.highest)):
        if not (math.isfinite(value) and value > 0):
            yield FieldError(f"{where}.{name}", f"must be above 0 and finite (is {value})")
            break
    if metric.principal and metric.role not in PROVING_ROLES:
        yield FieldError(
            f"{where}.principal", f"only activity and host may prove idleness (role {metric.role})"
        )
    for label, _ in metric.where:
        if not _LABEL.fullmatch(label):
            yield FieldError(f"{where}.where", f"must map names of labels to values (has {label[:40]!r})")


def _repeated(table: Mapping[str, Source], path: str) -> Iterator[FieldError]:
    """Metrics that two sources claim: an answer would count for both."""
    owners: dict[str, str] = {}
    for source in table.values():
        for metric in source.metrics:
            other = owners.setdefault(metric.name, source.name)
            if other != source.name:
                message = f"{metric.name} belongs to {other}: give that one's name, or switch it off"
                yield FieldError(f"{path}[{source.name}].metrics", f"{message} with enabled: false")


def _unknown_name(path: str, name: str, built_in: tuple[Source, ...]) -> FieldError:
    known = ", ".join(source.name for source in built_in)
    return FieldError(path, f"must be a built-in source: {known} (is {name[:40]!r})")
