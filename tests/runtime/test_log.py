from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from runtime.log import configure, escape


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Leaves the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        """A person reads here."""
        return True


def written(stream: io.StringIO) -> list[str]:
    """The lines of the log."""
    return stream.getvalue().splitlines()


def test_outside_of_a_terminal_every_line_is_one_json_object() -> None:
    """Fields of the process, the time and the caller's fields are all there."""
    stream = io.StringIO()
    configure("auto", stream=stream, fields={"component": "reaper"})
    structlog.get_logger("reaper.loop").info("pod warned", namespace="team-a", counts={"a": 1}, tags={"x"})
    (entry,) = [json.loads(line) for line in written(stream)]
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "component": "reaper",
        "event": "pod warned",
        "level": "info",
        "logger": "reaper.loop",
        "namespace": "team-a",
        "counts": {"a": 1},
        "tags": ["x"],
    }


def test_on_a_terminal_lines_are_for_people() -> None:
    """No JSON there."""
    stream = Terminal()
    configure("auto", stream=stream)
    structlog.get_logger("x").info("pod warned", namespace="team-a")
    assert "pod warned" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_nothing_a_user_names_can_forge_a_line_or_steer_the_terminal(log_format: str) -> None:
    """Newlines, escape sequences and direction marks are written out, also in messages of libraries."""
    stream = io.StringIO()
    configure(log_format, stream=stream)  # type: ignore[arg-type]
    evil = "a\nlevel=error\x1b[2J\u202e\u2028\x9b"
    structlog.get_logger("x").warning("seen", name=evil, nested={evil: [evil]}, error=ValueError(evil))
    logging.getLogger("aiohttp.server").error("bad request %s", evil)
    lines = stream.getvalue().split("\n")
    assert len(lines) == 3
    assert not any(character in stream.getvalue() for character in "\x1b\u202e\u2028\x9b")


def test_a_traceback_in_the_console_cannot_be_taken_for_a_log_line() -> None:
    """The text of an error may hold what a user wrote."""
    stream = io.StringIO()
    configure("console", stream=stream)
    try:
        raise ValueError("no\n2025-01-01 [info] all is well")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    assert all(line.startswith("  | ") for line in written(stream)[1:])
    assert "ValueError: no" in stream.getvalue()


def test_each_attempt_of_a_request_is_not_worth_a_line() -> None:
    """Whoever asked says once what came of it."""
    stream = io.StringIO()
    configure("json", stream=stream)
    logging.getLogger("urllib3.connectionpool").warning("Retrying after connection broken")
    assert stream.getvalue() == ""


def test_the_level_holds_for_libraries_too() -> None:
    """Nothing below it is written."""
    stream = io.StringIO()
    configure("json", "warning", stream=stream)
    structlog.get_logger("x").info("quiet")
    logging.getLogger("some.library").info("quiet")
    structlog.get_logger("x").warning("loud")
    assert len(written(stream)) == 1


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    """The message can be shown as it is."""
    with pytest.raises(ValueError, match="must be one of debug, info, warning, error; got 'loud'"):
        configure("json", "loud")


@given(st.text())
def test_escaped_text_has_no_character_that_acts(text: str) -> None:
    """And text without any is left alone."""
    got = escape(text)
    assert "\n" not in got
    assert "\x1b" not in got
    assert escape(got) == got
    if text.isprintable():
        assert got == text
