"""Services of pods that run as processes, and what is written for kwok and Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from sandbox.balancer import Backend
from sandbox.kubelet.network import Network, targets
from sandbox.kubelet.pods import ServicePort
from sandbox.parts import STAGES_DIR
from sandbox.startup import stages_without
from tests.sandbox.kubelet.objects import pod

SERVICE = ServicePort("w", "10.0.0.9", 443, {"app": "w"}, "https")


@pytest.fixture
def network() -> Iterator[Network]:
    """A network whose balancers take any free port."""
    made = Network(lambda: 0)
    yield made
    made.close()


def test_a_service_has_one_port_here_before_and_while_it_is_there(network: Network) -> None:
    """So that whoever was told of it early need not be told again."""
    port = network.port_of("w", 443)
    assert network.route("10.0.0.9", 443) is None
    network.update([SERVICE], [(pod(), {"https": Backend("127.0.0.1", 1)})])
    assert network.route("10.0.0.9", 443) == port == network.port_of("w", 443)
    assert network.route("10.0.0.9", 444) is None
    network.update([], [])
    assert network.route("10.0.0.9", 443) is None


def test_prometheus_is_told_of_what_runs() -> None:
    """By the labels that the chart's ServiceMonitor gives."""
    (found,) = json.loads(targets("ns", [(pod(), {"ops": Backend("127.0.0.1", 7)}), (pod(), {})]))
    assert found["targets"] == ["127.0.0.1:7"]
    assert found["labels"] == {
        "job": "gpu-tenure-webhook",
        "namespace": "ns",
        "pod": "w-1",
        "container": "webhook",
        "endpoint": "ops",
    }


def test_kwok_leaves_our_namespace_alone() -> None:
    """Every Stage of pods gets the condition, and stays what it was."""
    text = (STAGES_DIR / "pod.yaml").read_text()
    before, after = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(stages_without(text, "ours")))
    assert len(after) == len(before) > 0
    for old, new in zip(before, after, strict=True):
        *kept, added = new["spec"]["selector"]["matchExpressions"]
        assert added == {"key": ".metadata.namespace", "operator": "NotIn", "values": ["ours"]}
        assert kept == old["spec"]["selector"]["matchExpressions"]
        assert new["spec"]["next"] == old["spec"]["next"]
