"""Reading GPUQuotas as the API server sends them, and writing their ledgers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policy.ledger import Ledger, Reservation
from runtime.quotas import read_stored

SPEC = {"hard": {"devices": 8}}


def raw(spec: Any = None, **more: Any) -> bytes:
    """A quota as the API server sends it."""
    metadata = {"name": "q", "uid": "u", "generation": 2, "resourceVersion": "17"}
    return json.dumps({"metadata": metadata, "spec": SPEC if spec is None else spec, **more}).encode()


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": {}}], ids=["absent", "null", "empty"])
def test_a_quota_that_nobody_counted_has_an_empty_ledger(status: dict[str, Any]) -> None:
    """A new object has no status, and other writers may leave an empty one."""
    stored = read_stored(raw(**status))
    assert stored.ledger == Ledger()
    assert (stored.name, stored.version, stored.quota.generation, stored.problem) == ("q", "17", 2, None)


def test_the_ledger_is_read_whole() -> None:
    """All columns come through, and what others added is ignored."""
    reservation = {"namespace": "a", "name": "p", "subject": "*", "counts": {"nvidia.com/gpu": 2}, "at": "x"}
    status = {
        "used": {"*": {"nvidia.com/gpu": 3}},
        "reservations": {"u1": reservation},
        "podsResourceVersion": "12",
        "observedGeneration": 2,
        "namespaces": ["a"],
        "conditions": [],
    }
    assert read_stored(raw(status=status)).ledger == Ledger(
        used={"*": {"nvidia.com/gpu": 3}},
        reservations={"u1": Reservation("a", "p", "*", {"nvidia.com/gpu": 2}, "x")},
        pods_resource_version="12",
        observed_generation=2,
        namespaces=("a",),
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(raw({"hard": {}}), "it is invalid: spec.hard", id="an invalid specification"),
        pytest.param(raw(status={"used": 7}), "its status cannot be read", id="a status of another form"),
    ],
)
def test_what_cannot_be_read_is_kept_with_its_problem(body: bytes, problem: str) -> None:
    """Leaving it out would let every pod pass."""
    stored = read_stored(body)
    assert problem in str(stored.problem)
    assert stored.name == "q"
