"""Whatever Helm does on a real API server, what somebody paused stays paused until somebody ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.install import CHART, Installation, install_chart
from sandbox.users import SYSTEM_NAMESPACE

PREVIOUS = Path(__file__).parent / "data" / "gpu-tenure-0.0.9.tgz"
MAPS = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
PAUSE, SWITCHES = f"{MAPS}/gpu-tenure-pause", f"{MAPS}/gpu-tenure-switches"
PAUSED = {"paused": "true", "reason": "an incident"}


@pytest.fixture
def cluster(kubernetes: str) -> Iterator[Sandbox]:
    """A control plane of its own: what is installed and removed concerns the whole cluster."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as started:
        yield started


def pause(cluster: Sandbox) -> None:
    """Pauses as `gpu-tenure pause` does."""
    cluster.api().patch(PAUSE, {"data": PAUSED | {"until": None}})


def data(cluster: Sandbox, path: str = PAUSE) -> dict[str, str]:
    """What a switch says."""
    found: dict[str, str] = cluster.api().get(path)["data"]
    return found


def test_upgrades_rollbacks_and_an_uninstallation_end_no_pause(cluster: Sandbox) -> None:
    """Only the pause is nobody's: what else is published follows the release."""
    installation = install_chart(cluster, {"profile": "warn"})
    assert data(cluster)["paused"] == "false"
    installation.upgrade({"profile": "enforce"})
    assert data(cluster)["paused"] == "false"
    pause(cluster)
    uid = cluster.api().get(PAUSE)["metadata"]["uid"]
    installation.roll_back()
    assert data(cluster) == PAUSED
    assert data(cluster, SWITCHES)["profile"] == "warn"
    installation.upgrade({"profile": "observe"})
    assert data(cluster) == PAUSED
    assert data(cluster, SWITCHES)["profile"] == "observe"
    installation.roll_back(1)
    assert data(cluster) == PAUSED
    installation.uninstall()
    assert data(cluster) == PAUSED
    installation.upgrade({})
    assert data(cluster) == PAUSED
    assert cluster.api().get(PAUSE)["metadata"]["uid"] == uid


def test_a_pause_of_an_earlier_chart_is_taken_over(cluster: Sandbox) -> None:
    """There the object was the release's: Helm must not miss it when it leaves the manifest."""
    installation = install_chart(cluster, {}, PREVIOUS, tls_source=None)
    pause(cluster)
    installation.use_chart(CHART)
    installation.upgrade({"tls": {"source": "secret"}})
    assert data(cluster) == PAUSED
    installation.upgrade({"profile": "warn"})
    installation.roll_back()
    assert data(cluster) == PAUSED
    # Into the time before: that revision holds the switch as it was rendered then, and Helm writes it.
    installation.roll_back(1)
    assert data(cluster)["paused"] == "false"
    pause(cluster)
    installation.upgrade({})
    assert data(cluster) == PAUSED


def test_a_switch_made_by_hand_is_taken_over_and_a_missing_one_stays_a_pause(cluster: Sandbox) -> None:
    """To delete the switch pauses, so that an upgrade that makes it anew must not end that."""
    cluster.api().create_namespace(SYSTEM_NAMESPACE)
    cluster.api().create(MAPS, {"metadata": {"name": "gpu-tenure-pause"}, "data": PAUSED})
    installation: Installation = install_chart(cluster)
    assert data(cluster) == PAUSED
    cluster.api().delete(PAUSE)
    installation.upgrade({"profile": "warn"})
    assert data(cluster)["paused"] == "true"
    assert "gpu-tenure unpause" in data(cluster)["reason"]
