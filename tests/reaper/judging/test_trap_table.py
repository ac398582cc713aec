"""Which cases guard against which trap and prove which source: every one has some, and all of them exist.

Each case is a made-up past, judged from a real Prometheus with its expected verdict: in test_traps.py, and
for sources of the settings in test_user_sources.py. Pods name the cases.
"""

from __future__ import annotations

import pytest

from policy.verdicts import VerdictKind
from reaper.exporters import SOURCES
from tests.reaper.judging.test_traps import CASES
from tests.reaper.judging.test_user_sources import CASES as OF_SETTINGS

TRAPS = {
    "1 no data is not idle": "silent smi-alone xpu mlu-dark vgpu-dark untouched unnamed",
    "2 coverage is of the aggregated series": "short hole gaps halves twice restart smi-short mlu-short",
    "3 one busy sample counts": "burst early duty rare mean smi-once vgpu-once",
    "4 every signal that exists agrees": "stuck engine codec npu-doubt smi-doubt hold-doubt",
    "5 every device of the pod": "pair half partial more eight",
    "6 shared devices": "slice-a slice-c lone virtual twin-a zero-a zero-rest zero-half zero-smi-busy",
    "7 impossible values": "garbage-4e09 garbage-8e08 garbage-1e14 garbage-9e18 some many both beside",
    "8 names are reused": "young old reused same-uid",
    "9 HAMi's false 0": "legacy-zero new-zero new-recent new-graph legacy-graph new-untold new-no-card",
    "11 freshness": "ended late eight npu-gone smi-late zero-half",
    "also: SM, occupancy, DRAM, copy": "sm-active sm-occupancy dram-active copy npu-vector amd-umc smi-copy",
    "also: Xid and ECC": "xid ecc old-ecc agg remapped hami-xid ecc-uncorrected amd-ecc npu-code",
    "also: Xids from before the window": "xid-old xid-fresh xid-other xid-again xid-edge xid-unseen",
    "also: never touched": "nt-idle nt-plain nt-dark nt-gone nt-busy nt-short nt-half nt-young",
    "also: of what was given": "cores-card cores-given cores-less cores-none",
    "also: frozen exporters": "frozen frozen-lately thawed once-seen no-energy amd-frozen clock-new",
    "also: duty cycles": "duty",
    "also: processes that compute": "AMD-a-process-that-computes AMD-a-process-on-200-units hold-parked",
    "also: parked models": "parked holding small unmeasured percent percent-less vgpu",
    "also: scrape intervals": "slow seldom",
    "also: the exporter is no workload": "dcgm-exporter-0 old-set mixed beside-gpu",
}
"""Trap 10, partial answers, is in test_prometheus.py: a store that fails in many ways, never in silence."""

BUSY_AND_IDLE = {
    "dcgm: exported labels": "idle busy",
    "dcgm: honored labels": "honored honored-busy",
    "dcgm: exporters outside the cluster": "mixed mixed-busy",
    "dcgm: the old set of labels": "old-set old-set-busy",
    "dcgm: MIG": "mig-idle mig-busy",
    "dcgm: DRA": "dra dra-busy",
    "dcgm: codecs": "idle enc",
    "dcgm-1.x": "ancient ancient-busy",
    "hami": "new-idle new-sum",
    "hami-legacy": "legacy-idle legacy-sum",
    "nvidia-smi": "smi-idle smi-busy",
    "amd": "amd-idle amd-busy",
    "amd: with a prefix": "amd-pre amd-pre-busy",
    "ascend: new names": "npu-idle npu-busy",
    "ascend: new names, honored": "npu-honored npu-honored-busy",
    "ascend: old names": "npu-old npu-old-busy",
    "cambricon": "mlu-idle mlu-busy",
    "cambricon: honored": "mlu-honored mlu-honored-busy",
}
IDLE_OR_UNKNOWN = {
    "dcgm: time-slicing": "slice-a slice-c",
    "dcgm: virtual GPUs": "zero-rest zero-a",
    "dcgm: MIG without its label": "mig-bare-rest mig-bare",
    "hami-legacy: Volcano": "vgpu-rest vgpu-busy",
    "gpu-idle": "hold-agrees hold-parked hold-left hold-zero",
    "ascend: virtual NPUs": "npu-part-rest npu-part",
    "cambricon: shares": "mlu-vf-rest mlu-vf",
}
NEVER_IDLE = {"xpumd": "xpu", "amd: partitions": "amd-part amd-cpx amd-part-0"}
KINDS = {case.pod.name: case.kind for case in CASES}


@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_has_its_cases(trap: str) -> None:
    """Those that are named exist, and one of them at least is not idle."""
    kinds = [KINDS[name] for name in TRAPS[trap].split()]
    assert any(kind is not VerdictKind.IDLE for kind in kinds)


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        pytest.param(BUSY_AND_IDLE, {VerdictKind.IDLE, VerdictKind.ACTIVE}, id="sources that tell both"),
        pytest.param(
            IDLE_OR_UNKNOWN, {VerdictKind.IDLE, VerdictKind.UNKNOWN}, id="those that tell rest alone"
        ),
        pytest.param(NEVER_IDLE, {VerdictKind.UNKNOWN}, id="those that tell nothing of pods"),
    ],
)
def test_every_source_tells_what_it_can(table: dict[str, str], kinds: set[VerdictKind]) -> None:
    """A case for each kind of verdict that a source can lead to."""
    for source, names in table.items():
        assert {KINDS[name] for name in names.split()} == kinds, source


def test_no_source_is_without_cases() -> None:
    """Each built-in one is in a table."""
    named = {key.partition(":")[0] for key in (*BUSY_AND_IDLE, *IDLE_OR_UNKNOWN, *NEVER_IDLE)}
    assert named == {source.name for source in SOURCES}


def test_no_metric_is_without_a_case() -> None:
    """Each of every table occurs in one at least, by itself or with its prefix."""
    told = {line.name for case in (*CASES, *OF_SETTINGS) for line in case.lines}
    metrics = {metric.name.removeprefix("amd_") for source in SOURCES for metric in source.metrics}
    assert metrics <= told


def test_every_case_has_a_pod_of_its_own() -> None:
    """Series of two cases with one pod would be judged together."""
    assert len(KINDS) == len(CASES)
