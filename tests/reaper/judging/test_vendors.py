"""Pods of every vendor: idle only where a source sees the devices, Unknown with a reason everywhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy.devices import devices_of
from policy.keys import Annotation, Label
from policy.objects import Pod
from policy.resources import TABLE, Unit, parse_table
from policy.verdicts import Reason, VerdictKind
from reaper.exporters import DCGM, SOURCES, vendors_of
from reaper.pods import gpu_pod
from tests.reaper.judging.made import device, verdict
from tests.reaper.judging.past import gpu

NAMES = [name for rule in TABLE if rule.unit is not Unit.NOTHING for name in rule.examples]
VENDORS = {name: rule.vendor for rule in TABLE for name in rule.examples}


def pod(limits: dict[str, Any], **spec: Any) -> Pod:
    """A stored pod of one container."""
    containers = [{"name": "main", "resources": {"limits": limits}}]
    metadata = {"name": "p", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T08:00:00Z"}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": containers, **spec}}, Pod)


@pytest.mark.parametrize("name", NAMES)
def test_only_devices_that_a_source_sees_are_idle(name: str) -> None:
    """However quiet a series with the pod's name is, it proves nothing about another vendor's device."""
    devices = devices_of(pod({name: 1}).spec)
    found = verdict(device(), pod=gpu("p", devices=devices))
    if VENDORS[name] not in vendors_of(SOURCES):
        assert (found.kind, found.reason) == (VerdictKind.UNKNOWN, Reason.UNSUPPORTED_SOURCE)
        assert name in found.sentence
    elif VENDORS[name] in DCGM.vendors:
        assert found.reason not in {Reason.UNSUPPORTED_SOURCE, Reason.NO_SERIES}
    else:
        assert found.kind is VerdictKind.UNKNOWN


def test_a_second_device_of_another_vendor_is_not_overlooked() -> None:
    """One idle device beside one that nobody sees, or that nobody has seen."""
    for other, reason in (
        ("habana.ai/gaudi", Reason.UNSUPPORTED_SOURCE),
        ("huawei.com/Ascend910", Reason.PARTIAL_DEVICES),
    ):
        devices = devices_of(pod({"nvidia.com/gpu": 1, other: 1}).spec)
        found = verdict(device(), pod=gpu("p", devices=devices))
        assert (found.kind, found.reason) == (VerdictKind.UNKNOWN, reason)


def test_every_source_sees_a_vendor_of_the_table() -> None:
    """Both tables use the same words."""
    assert {vendor for source in SOURCES for vendor in source.vendors} <= {rule.vendor for rule in TABLE}


def test_a_renamed_resource_is_judged_by_its_vendor() -> None:
    """The device plugin may rename nvidia.com/gpu; whoever says so has it judged."""
    table = parse_table([{"pattern": r"nvidia\.com/gpu-a100", "unit": "device", "vendor": "nvidia"}])
    found = gpu_pod(pod({"nvidia.com/gpu-a100": 1}), table)
    assert found is not None
    assert gpu_pod(pod({"nvidia.com/gpu-a100": 1})) is None
    assert verdict(device(), pod=gpu("p", devices=found.devices)).kind is VerdictKind.IDLE


def test_more_devices_than_are_seen_are_not_idle() -> None:
    """What only companions imply, and the overhead, is expected too."""
    for spec in (
        pod({"nvidia.com/gpu": 1}, overhead={"nvidia.com/gpu": 1}),
        pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 10}),
    ):
        found = verdict(device(), pod=gpu("p", devices=devices_of(spec.spec)))
        assert (found.kind, found.reason) == (VerdictKind.UNKNOWN, Reason.PARTIAL_DEVICES)


CLAIMS = [{"name": "c", "resourceClaimTemplateName": "t"}]


SAYING = [
    pytest.param({"labels": {Label.POLICY.value: "default"}}, True, id="admission knew that they hold GPUs"),
    pytest.param({"labels": {Label.IDLE_AFTER.value: "4h"}}, False, id="its user asked for terms"),
    pytest.param({"annotations": {Annotation.REQUESTED_BY.value: "ana"}}, False, id="it says who asked"),
]


@pytest.mark.parametrize(("meta", "certain"), SAYING)
def test_claims_of_a_pod_that_says_that_it_holds_gpus(meta: dict[str, Any], certain: bool) -> None:
    """It is kept, since it carries a key of ours, and is never idle: what it holds is not looked up here."""
    plain = pod({}, resourceClaims=CLAIMS)
    metadata = msgspec.structs.replace(plain.metadata, **meta)
    found = gpu_pod(msgspec.structs.replace(plain, metadata=metadata))
    assert found is not None
    assert found.certain is certain
    judged = verdict(device(), pod=gpu("p", devices=found.devices))
    assert (judged.kind, judged.reason) == (VerdictKind.UNKNOWN, Reason.UNSUPPORTED_SOURCE)


def test_claims_of_a_pod_that_says_nothing() -> None:
    """They may be for network cards; without claims a key of ours makes no GPU pod either."""
    others = {"labels": {"app": "web"}, "annotations": {"example.org/gpu": "yes"}}
    plain = pod({}, resourceClaims=CLAIMS)
    metadata = msgspec.structs.replace(plain.metadata, **others)
    assert gpu_pod(msgspec.structs.replace(plain, metadata=metadata)) is None
    asked = msgspec.structs.replace(plain.metadata, labels={Label.IDLE_AFTER.value: "4h"})
    assert gpu_pod(msgspec.structs.replace(pod({}), metadata=asked)) is None


def test_a_part_of_a_card_is_never_idle() -> None:
    """KAI's pods hold no device of their own in the metrics."""
    plain = pod({})
    annotated = msgspec.structs.replace(plain.metadata, annotations={"gpu-fraction": "0.5"})
    found = gpu_pod(msgspec.structs.replace(plain, metadata=annotated))
    assert found is not None
    assert verdict(device(), pod=gpu("p", devices=found.devices)).reason is Reason.UNSUPPORTED_SOURCE
