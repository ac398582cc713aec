"""Structured logs: JSON in a pod, readable in a terminal. Knows nothing of what is logged.

Strings that users control (names, labels, messages) reach the logs, so characters that could forge a line or
steer a terminal are escaped. Nothing is redacted: tokens are never given to the log in the first place.
"""

from __future__ import annotations

import logging
import sys
import traceback
import unicodedata
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog

LogFormat = Literal["auto", "json", "console"]
_ESCAPED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_INTERNAL = ("exc_info", "stack_info", "_record", "_from_structlog")
_QUIET = {
    "aiohttp.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "kubernetes_asyncio": logging.WARNING,
    # It warns of each repeated attempt; whoever made the request says what came of it.
    "urllib3": logging.ERROR,
}


def configure(
    log_format: LogFormat = "auto",
    level: str = "info",
    *,
    stream: TextIO | None = None,
    fields: Mapping[str, str] | None = None,
) -> None:
    """Sets up structlog and the standard library's logging, both with the same output.

    `auto` is readable on a terminal and JSON otherwise; `level` is a name such as `info`; `fields` go on
    every line. Raises ValueError for an unknown level.
    """
    stream = stream or sys.stderr
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        msg = f"must be one of debug, info, warning, error; got {level!r}"
        raise ValueError(msg)
    readable = log_format == "console" or (log_format == "auto" and stream.isatty())
    shared = _shared_processors(fields or {})
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(shared, readable=readable, colors=readable and stream.isatty()))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(number, least))


def escape(text: str) -> str:
    r"""Returns the text with control, format and line-separating characters as `\n` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(_escape_one(character) for character in text)


def _escape_one(character: str) -> str:
    if unicodedata.category(character) not in _ESCAPED:
        return character
    return character.encode("unicode_escape").decode("ascii")


def _clean(value: object) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {escape(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return escape(str(value))


def _clean_event(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    kept = {key: event[key] for key in _INTERNAL if key in event}
    cleaned = {escape(key): _clean(value) for key, value in event.items() if key not in kept}
    return cleaned | kept


def _shared_processors(fields: Mapping[str, str]) -> list[Any]:
    def add_fields(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**fields, **event}

    return [
        structlog.contextvars.merge_contextvars,
        add_fields,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _clean_event,
    ]


def _indented_traceback(stream: TextIO, exc_info: Any) -> None:  # noqa: ANN401 - structlog's own type
    """Writes a traceback of which no line can be taken for a log line: an error's text may be a user's."""
    for text in traceback.format_exception(*exc_info):
        stream.writelines(f"\n  | {escape(line)}" for line in text.splitlines())


def _formatter(shared: list[Any], *, readable: bool, colors: bool) -> logging.Formatter:
    render: list[Any]
    if readable:
        render = [
            structlog.dev.ConsoleRenderer(
                colors=colors, exception_formatter=_indented_traceback, pad_event_to=0, pad_level=False
            )
        ]
    else:
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
    )
