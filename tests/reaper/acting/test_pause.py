"""The switch that stops everything: read, written, and in doubt paused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reaper.pause import Pause, parse_pause, paused_data, read_pause, released_data, resumed_data, write_pause
from runtime.kube import ApiError, ApiUnreachable
from tests.reaper.acting.kube import FakeKube
from tests.reaper.acting.made import NOON, minutes


def switch(**data: str) -> bytes:
    """Gives the ConfigMap as the API server sends it."""
    keys = {key.replace("_", "-"): value for key, value in data.items()}
    fields = [{"time": "2025-03-01T08:00:00Z"}, {"time": "2025-03-01T09:00:00Z"}, {}]
    return msgspec.json.encode({"metadata": {"managedFields": fields}, "data": keys})


SWITCHES = [
    pytest.param(
        switch(paused="false"), False, NOON - minutes(180), id="not paused, changed three hours ago"
    ),
    pytest.param(switch(paused="true", reason="x"), True, None, id="paused until further notice"),
    pytest.param(switch(paused="true", until="2025-03-01T13:00:00Z"), True, None, id="paused until later"),
    pytest.param(
        switch(paused="true", until="2025-03-01T11:00:00Z"), False, NOON - minutes(60), id="the pause is over"
    ),
    pytest.param(
        switch(paused="false", resumed_at="2025-03-01T11:30:00Z"),
        False,
        NOON - minutes(30),
        id="resumed half an hour ago",
    ),
    pytest.param(switch(paused="no"), True, None, id="neither true nor false"),
    pytest.param(switch(), True, None, id="it says nothing"),
    pytest.param(switch(paused="false", until="soon"), True, None, id="an unreadable time"),
    pytest.param(b"<html>", True, None, id="no JSON"),
    pytest.param(b'{"data": ["paused"]}', True, None, id="another shape"),
    pytest.param(b'{"data": null}', True, None, id="no data"),
]


@pytest.mark.parametrize(("body", "paused", "resumed_at"), SWITCHES)
def test_the_switch_is_off_only_if_it_clearly_says_so(body: bytes, paused: bool, resumed_at: Any) -> None:
    """Whatever cannot be understood counts as paused, with a reason."""
    found = parse_pause(body, NOON)
    assert (found.paused, found.resumed_at) == (paused, resumed_at)
    assert bool(found.reason) is paused


PAUSE_PATH = "/api/v1/namespaces/gpu-tenure-system/configmaps/gpu-tenure-pause"


@pytest.mark.parametrize(
    "answer",
    [
        ApiError(404, "NotFound", "x"),
        ApiError(403, "Forbidden", "x"),
        ApiError(500, "", "x"),
        ApiUnreachable("x"),
    ],
    ids=["missing", "forbidden", "failed", "unreachable"],
)
async def test_a_switch_that_cannot_be_read_means_paused(answer: Exception) -> None:
    """The reason says where to look."""
    found = await read_pause(FakeKube({("GET", PAUSE_PATH): answer}), NOON)
    assert found.paused
    assert "gpu-tenure-system/gpu-tenure-pause" in found.reason


async def test_the_switch_is_made_if_it_is_missing() -> None:
    """Without it everything is paused; `unpause` mends that too."""
    kube = FakeKube({("POST", PAUSE_PATH.rsplit("/", 1)[0]): {}})
    await write_pause(kube, resumed_data(NOON))
    assert [method for method, *_ in kube.sent] == ["PATCH", "POST"]
    made = kube.sent[1][2]["data"]
    assert parse_pause(msgspec.json.encode({"data": made}), NOON) == Pause(paused=False, resumed_at=NOON)


def test_what_is_written_is_what_is_read() -> None:
    """Pausing, ending it and releasing the brake, one after the other."""
    data: dict[str, str | None] = {}
    data |= paused_data("maintenance", NOON + minutes(60))
    assert _read(data) == Pause(paused=True, reason="maintenance", until=NOON + minutes(60))
    data |= released_data(NOON)
    assert _read(data).brake_released_at == NOON
    assert _read(data).paused
    data |= resumed_data(NOON)
    assert _read(data) == Pause(paused=False, resumed_at=NOON, brake_released_at=NOON)


def _read(data: dict[str, str | None]) -> Pause:
    kept = {key: value for key, value in data.items() if value is not None}
    return parse_pause(msgspec.json.encode({"data": kept}), NOON)
