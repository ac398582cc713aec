"""Which pods a message of Alertmanager speaks of."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper.hints import Hint, UnreadableError, hint_of, read_message

POD = Hint("team-a", "train-0")


def message(*labels: dict[str, Any], status: str = "firing", **fields: Any) -> bytes:
    """Gives a body as Alertmanager sends it."""
    alerts = [
        {
            "status": status,
            "labels": {"alertname": "LowGPUUsagePodDetected", **one},
            "annotations": {"summary": "x"},
            "startsAt": "2025-03-01T12:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus/graph",
            "fingerprint": "7d3d1c2b",
        }
        for one in labels
    ]
    usual = {
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "gpu-tenure",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": alerts,
    }
    return json.dumps(usual | fields).encode()


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        pytest.param({"podnamespace": "team-a", "podname": "train-0"}, POD, id="HAMi's labels"),
        pytest.param({"namespace": "team-a", "pod": "train-0"}, POD, id="dcgm-exporter's, honoured"),
        pytest.param(
            {
                "exported_namespace": "team-a",
                "exported_pod": "train-0",
                "namespace": "gpu-operator",
                "pod": "dcgm-exporter-x",
            },
            POD,
            id="dcgm-exporter's, renamed: not the exporter itself",
        ),
        pytest.param(
            {"podnamespace": "team-a", "podname": "train-0", "namespace": "hami-system", "pod": "hami-x"},
            POD,
            id="HAMi's beside those of its own pod",
        ),
        pytest.param({"pod_namespace": "team-a", "pod_name": "train-0"}, POD, id="an old dcgm-exporter's"),
        pytest.param({"namespace": "team-a", "pod_name": "train-0"}, POD, id="an npu-exporter's"),
        pytest.param({"namespace": "team-a"}, None, id="a namespace alone"),
        pytest.param({"namespace": "team-a", "pod": ""}, None, id="an empty name"),
        pytest.param({"namespace": "team-a", "pod": "../../secrets"}, None, id="what no pod is called"),
        pytest.param({"namespace": "a" * 64, "pod": "x"}, None, id="a namespace that is too long"),
    ],
)
def test_a_pod_by_its_labels(labels: dict[str, str], hint: Hint | None) -> None:
    """Every scheme that sources use; nothing else passes."""
    assert hint_of(labels) == hint


def test_only_firing_alerts_of_others_count() -> None:
    """One that is over, and warnings of ours that come back, are no reason to look."""
    dcgm = {"namespace": "team-a", "pod": "train-0"}
    assert read_message(message(dcgm)).hints == {POD}
    assert read_message(message(dcgm, status="resolved")).hints == frozenset()
    assert read_message(message({**dcgm, "alertname": "GPUTenureIdleWarning"})).hints == frozenset()


def test_pods_are_named_once_and_riddles_are_counted() -> None:
    """Several alerts may be about one pod, and some about none."""
    dcgm = {"namespace": "team-a", "pod": "train-0"}
    found = read_message(message(dcgm, dcgm, {}, {"pod": "x"}))
    assert (found.hints, found.unreadable) == ({POD}, 2)


def test_fields_that_nobody_knows_are_no_trouble() -> None:
    """Alertmanager grows."""
    assert read_message(message({"namespace": "team-a", "pod": "train-0"}, novelty={"a": [1]})).hints == {POD}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="an empty body"),
        pytest.param(b"<html>login</html>", id="a web page"),
        pytest.param(b"[]", id="a list instead of an object"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"version": "4", "alerts": {}}', id="alerts that are no list"),
        pytest.param(b'{"version": "4", "alerts": [{"labels": {"pod": 1}}]}', id="labels that are no text"),
        pytest.param(b"\xff\xfe", id="bytes that are no text"),
        pytest.param(message(version="5"), id="another version"),
        pytest.param(b"[" * 100_000, id="a deep hole"),
    ],
)
def test_what_is_no_message(body: bytes) -> None:
    """It is refused, with a sentence."""
    with pytest.raises(UnreadableError, match=r"is no message|must be 4"):
        read_message(body)


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """Nothing else is ever raised."""
    with contextlib.suppress(UnreadableError):
        read_message(body)
