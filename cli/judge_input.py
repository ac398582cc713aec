"""Reads what `gpu-tenure judge` is given; collects all that is wrong instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from cli.documents import read_documents
from cli.gpu_resources import read_table
from cli.podlist import read_bytes, read_pods
from cli.prometheus_flags import Reach
from policy.durations import parse_duration, parse_time
from policy.errors import FieldError, FormatError, InvalidError
from policy.resources import BUILT_IN_TABLE, ResourceTable
from policy.selection import PolicySet
from reaper.criteria import JudgeSettings
from reaper.dossier import Given, given_terms
from reaper.exporters import SOURCES
from reaper.pods import GpuPod, gpu_pod
from reaper.prometheus import PrometheusOptions
from reaper.source_rows import PATH, parse_sources
from reaper.sources import Source
from runtime.clock import SystemClock
from runtime.settings_file import read_file

LIMIT_SECONDS = 300.0
"""All queries together; a person waits longer than a reaper's cycle may."""


def missing(needed: Mapping[str, object]) -> list[FieldError]:
    """What was not given of what judging pods needs."""
    hint = "is needed; see gpu-tenure judge --help, or give --nvidia-smi"
    return [FieldError(flag, hint) for flag, value in needed.items() if not value]


def moment(at: str | None, errors: list[FieldError], flag: str = "--at") -> datetime:
    """The time that a flag gives, now without a text."""
    now = SystemClock().now()
    try:
        return now if at is None else parse_time(at)
    except FormatError as error:
        errors.append(FieldError(flag, str(error)))
        return now


def prometheus(url: str, reach: Reach, errors: list[FieldError]) -> PrometheusOptions | None:
    """How to reach Prometheus; None if that cannot be told."""
    cert_file, key_file = reach.cert_file, reach.key_file
    files = {
        "--bearer-token-file": reach.bearer_token_file,
        "--password-file": reach.password_file,
        "--ca-file": reach.ca_file,
        "--cert-file": cert_file,
        "--key-file": key_file,
    }
    for flag, path in files.items():
        if path is not None and not path.is_file():
            errors.append(FieldError(flag, f"no file {path}"))
    found = _pairs("--header", reach.header, errors)
    limit = seconds("--timeout", reach.timeout, errors)
    if (cert_file is None) != (key_file is None):
        errors.append(FieldError("--cert-file", "goes with --key-file: give both or neither"))
        cert_file = key_file = None
    try:
        return PrometheusOptions(
            url=url,
            timeout=limit,
            bearer_token_file=reach.bearer_token_file,
            username=reach.username,
            password_file=reach.password_file,
            ca_file=reach.ca_file,
            cert_file=cert_file,
            key_file=key_file,
            headers=found,
        )
    except ValueError as error:
        errors.append(FieldError("--prometheus-url", str(error)))
        return None


def criteria(
    intervals: Sequence[str],
    matchers: Sequence[str],
    history: str,
    sources: tuple[Source, ...],
    errors: list[FieldError],
) -> JudgeSettings | None:
    """The numbers of judging; None if they are impossible."""
    spans = {
        source: seconds("--interval", text, errors)
        for source, text in _pairs("--interval", intervals, errors).items()
    }
    try:
        return JudgeSettings(
            intervals=spans,
            matchers=_pairs("--matcher", matchers, errors),
            history=round(seconds("--history", history, errors)),
            limit_seconds=LIMIT_SECONDS,
            sources=sources,
        )
    except ValueError as error:
        field, _, said = str(error).partition(": ")
        errors.append(FieldError(f"--{field.removesuffix('s')}", said))
        return None


def sources(path: Path | None, errors: list[FieldError]) -> tuple[Source, ...]:
    """The built-in exporters with those that a file holds under `sources`, whatever else it holds."""
    content, problems = read_file(path) if path is not None else ({}, [])
    errors += problems
    rows = content.get(PATH, [])
    if not isinstance(rows, list) or (path is not None and not problems and not rows):
        errors.append(FieldError("--source-file", f"{path} must hold a list of exporters under `{PATH}`"))
        return SOURCES
    try:
        return parse_sources(rows)
    except InvalidError as error:
        errors += [FieldError(f"--source-file {path}: {one.path}", one.message) for one in error.errors]
        return SOURCES


def policies(paths: Sequence[Path], errors: list[FieldError]) -> PolicySet:
    """The GPUPolicies of files; an invalid one is an error, nothing falls back here."""
    objects: list[Mapping[str, object]] = []
    for path in paths:
        try:
            documents = read_documents(str(path), path.read_bytes())
        except OSError as error:
            errors.append(FieldError("--policy", f"cannot read {path}: {error.strerror}"))
            continue
        except InvalidError as error:
            errors += [FieldError(f"--policy {one.path}", one.message) for one in error.errors]
            continue
        found = [one.content for one in documents if one.content["kind"] == "GPUPolicy"]
        if not found:
            errors.append(FieldError("--policy", f"{path} holds no GPUPolicy"))
        objects += found
    policies = PolicySet.of(objects)
    for name, broken in policies.invalid.items():
        errors += [error.under(f"--policy {name}") for error in broken.errors]
    return policies


def table(text: str, errors: list[FieldError]) -> ResourceTable:
    """The names of GPU resources."""
    try:
        return read_table(text)
    except InvalidError as error:
        errors += error.errors
        return BUILT_IN_TABLE


def pods(
    path: Path, policies: PolicySet, names: ResourceTable, errors: list[FieldError]
) -> list[tuple[GpuPod, Given]]:
    """The GPU pods of a list, with the terms to judge them by."""
    before = len(errors)
    data = read_bytes(path, errors)
    if len(errors) > before:
        return []
    listed = read_pods(data, errors)
    found = [pod for one in listed.pods if (pod := gpu_pod(one, names)) is not None]
    return [(pod, given_terms(pod, policies, listed.namespaces)) for pod in found]


def _pairs(flag: str, texts: Sequence[str], errors: list[FieldError]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            errors.append(FieldError(flag, f"must be NAME=VALUE, is {text!r}"))
        else:
            found[name] = value
    return found


def seconds(flag: str, text: str, errors: list[FieldError]) -> float:
    """Reads a duration of at least a second."""
    try:
        found = parse_duration(text).seconds
    except FormatError as error:
        errors.append(FieldError(flag, str(error)))
        return 15.0
    if found < 1:
        errors.append(FieldError(flag, "must be at least 1s"))
    return float(max(found, 1))
