"""What wrong clocks could do: ask for the past, or take an earlier pod's samples for this one's."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from msgspec import structs

from policy.verdicts import Reason, VerdictKind
from reaper.clocks import believed, disagreement, server_time
from reaper.evidence import Verdict
from reaper.pause import read_pause
from runtime.kube import Response
from tests.reaper.acting.made import ACTIVE, IDLE, NOON, pod_of

HOUR = timedelta(hours=1)


class DatedKube:
    """An API server with a clock of its own and the switch off."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    async def request(self, method: str, path: str, **_: Any) -> Response:
        """Answers with the time of its clock."""
        assert (method, path.rsplit("/", 1)[1]) == ("GET", "gpu-tenure-pause")
        return Response(200, self._headers, msgspec.json.encode({"data": {"paused": "false"}}))


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        pytest.param({"date": format_datetime(NOON + HOUR / 60)}, "", id="a minute is tolerated"),
        pytest.param(
            {"date": format_datetime(NOON + HOUR)},
            "the clock of the API server is 3600 s ahead of ours",
            id="ours is behind: it would not see what became busy",
        ),
        pytest.param(
            {"date": format_datetime(NOON - HOUR)},
            "the clock of the API server is 3600 s behind ours",
            id="ours is ahead: a grace would seem to be over",
        ),
        pytest.param({}, "", id="no time is told"),
        pytest.param({"date": "yesterday"}, "", id="no readable time is told"),
    ],
)
async def test_a_reaper_with_a_wrong_clock_is_paused(headers: dict[str, str], reason: str) -> None:
    """It is sure of nothing; both a cycle and the look right before an action read the switch."""
    found = await read_pause(DatedKube(headers), NOON)  # type: ignore[arg-type]
    assert (found.paused, found.reason) == (bool(reason), reason)


def test_the_time_of_a_server_is_read_with_its_zone() -> None:
    """As HTTP writes it."""
    assert server_time({"date": "Sat, 01 Mar 2025 12:00:00 GMT"}) == NOON
    assert disagreement("Prometheus", NOON, NOON - HOUR, 60) is not None


def started(ago: timedelta, verdict: Verdict = IDLE) -> Verdict:
    """Gives what is believed of a pod made at noon whose container started so long before."""
    pod = structs.replace(pod_of("a", created=NOON), containers_started=NOON - ago)
    return believed(verdict, pod, 300)


def test_a_container_is_not_older_than_its_pod() -> None:
    """Else the window may hold the samples of an earlier pod of the same name; proof of activity stands."""
    assert started(timedelta(minutes=5)) == IDLE
    found = started(timedelta(hours=2))
    assert (found.kind, found.reason, found.idle_since) == (VerdictKind.UNKNOWN, Reason.CLOCKS_DIFFER, None)
    assert started(timedelta(hours=2), ACTIVE) == ACTIVE
