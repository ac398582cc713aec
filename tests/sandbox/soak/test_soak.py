from __future__ import annotations

import pytest

from sandbox.soak.faults import Kind
from sandbox.soak.run import SoakOptions, soak

MINUTES = 7
KINDS = (
    Kind.API_KILLED,
    Kind.PROMETHEUS_KILLED,
    Kind.LEADER_KILLED,
    Kind.EXPORTER_GARBAGE,
    Kind.RECREATED,
    Kind.AWAKE,
)


@pytest.mark.real
@pytest.mark.timeout(MINUTES * 60)
def test_a_short_soak_finds_nothing_wrong(kubernetes: str) -> None:
    """Each kind of fault once or so, evictions before and after; `make soak` goes on for longer."""
    said: list[str] = []
    options = SoakOptions(seconds=40, seed=11, pause=(1.0, 3.0), kinds=KINDS, kubernetes=kubernetes)
    report = soak(options, said.append)
    assert report.wrongs == [], "\n".join([*report.wrongs, *said])
    assert report.evicted >= 2
    assert sum(report.faults.values()) >= 3
