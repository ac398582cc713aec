"""Workloads that ask for more than a GPUQuota leaves are told so when a person creates them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from policy.devices import Devices
from policy.resourcequota import Room
from runtime.quotas import StoredQuota, read_stored
from tests.quota.memory import MemoryApi
from webhook.quotas import QuotaBook
from webhook.room import room_remarks

GPU = "nvidia.com/gpu"


class Shelf(QuotaBook):
    """The quotas of an API server in memory."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api

    def all(self) -> list[StoredQuota]:
        """All of them."""
        return [read_stored(self._api.raw(name)) for name in self._api.quotas]


def weigh(name: str) -> Fraction:
    """Half a card per unit of a slice."""
    return Fraction(1) if name == GPU else Fraction(1, 2)


@pytest.mark.parametrize(
    ("spec", "used", "rooms"),
    [
        pytest.param({}, {"*": {GPU: 3}}, (Room("GPUQuota", "q", "devices", 8, 3),), id="in common"),
        pytest.param(
            {"per": "namespace"},
            {"team-a": {GPU: 1}, "team-b": {GPU: 8}},
            (Room("GPUQuota", "q", "devices", 8, 1),),
            id="each namespace",
        ),
        pytest.param({"per": "requester"}, {"dev-a": {GPU: 8}}, (), id="each requester has another"),
        pytest.param(
            {},
            {"*": {"nvidia.com/mig-3g": 3}},
            (Room("GPUQuota", "q", "devices", 8, 2),),
            id="parts are rounded up",
        ),
        pytest.param({"namespaceSelector": {"matchLabels": {"a": "b"}}}, {}, (), id="not selected"),
    ],
)
def test_what_quotas_leave(spec: dict[str, Any], used: dict[str, Any], rooms: tuple[Room, ...]) -> None:
    """As whole devices, for the subject that the namespace's pods count against."""
    api = MemoryApi()
    api.add_quota(used=used, namespaces=[])
    api.quotas["q"]["spec"].update(spec)
    assert Shelf(api).rooms("team-a", {}, weigh) == rooms


def test_a_workload_is_compared_by_the_cards_it_weighs() -> None:
    """Four pods of three devices do not fit into the five that are left."""
    room = Room("GPUQuota", "team", "devices", 8, 3)
    (remark,) = room_remarks([(Devices({GPU: 3}), 4)], [room])
    assert remark == "its 4 pods ask for 12 devices, but GPUQuota team leaves 5 of 8"
    assert room_remarks([(Devices({GPU: 5}), 1)], [room]) == ()
