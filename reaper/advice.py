"""What an administrator can change so that Unknown pods become visible: pure sentences, one per cause."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from policy.resources import Unit
from policy.verdicts import Reason
from reaper.exporters import AMD, ASCEND, CAMBRICON, DCGM, DCGM_1X, HAMI, HAMI_LEGACY, XPUMD
from reaper.pods import GpuPod
from reaper.sources import Source

ADVICE: Final[dict[Reason, str]] = {
    Reason.NO_SERIES: (
        "dcgm-exporter must name pods: DCGM_EXPORTER_KUBERNETES=true, and the kubelet's pod-resources mounted"
    ),
    Reason.PARTIAL_DEVICES: (
        "the exporter names fewer or more devices than the pod asked for: check that it runs on every GPU"
        " node, and that its mount of the kubelet's pod-resources works"
    ),
    Reason.STALE: "a scrape target went away: look at `up` and at the exporter's pods",
    Reason.LOW_COVERAGE: "scrapes are missing: look at `up` over the window, and at the retention",
    Reason.INTERVAL_UNKNOWN: "scrape at least every two minutes, or give the interval: --interval dcgm=5m",
    Reason.GARBAGE_SAMPLES: "a newer driver or DCGM stops the impossible values",
    Reason.FROZEN_EXPORTER: "restart the exporter: it repeats old values",
    Reason.DEVICE_FAULT: "drain the node and reset the device",
    Reason.SHARED_DEVICE: "time-slicing hides who computes: MIG or HAMi show each pod's part",
    Reason.SIGNALS_DISAGREE: "compare the signals in --output json: one is wrong, or others use the card",
    Reason.MEMORY_UNKNOWN: "the terms look at memory: export DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_FB_FREE",
    Reason.UNSUPPORTED_SOURCE: "no metric tells of these devices, or not of each: they are never idle",
    Reason.TOO_YOUNG: "these can be judged when they are older than the window and the warm-up",
    Reason.NEVER_TOUCHED: "devices were allocated and never used: ask the owners",
    Reason.PROMETHEUS_UNAVAILABLE: "check the address, the credentials and Prometheus' own load",
    Reason.PARTIAL_ANSWER: "a store behind Prometheus is down, or a limit of samples was reached",
    Reason.SEVERAL_CLUSTERS: 'say which cluster this is: matchers {"cluster": "NAME"} in the settings',
    Reason.GARBAGE_ANSWER: "the address is not that of a Prometheus API",
}
"""What helps, by reason."""

EXPORTERS: Final[dict[str, tuple[Source, str, str]]] = {
    "amd": (AMD, "AMD's device-metrics-exporter", "AMD's device-metrics-exporter must name pods"),
    "huawei": (
        ASCEND,
        "Ascend's npu-exporter",
        "Ascend's npu-exporter must name pods, and devices by vdie_id",
    ),
    "cambricon": (
        CAMBRICON,
        "Cambricon's mlu-exporter",
        "Cambricon's mlu-exporter needs its collector podresources, which prints mlu_container",
    ),
    "intel": (
        XPUMD,
        "Intel's xpumd",
        "Intel's xpumd names no pods: add a source that tells who holds each device (docs/sources.md)",
    ),
    "volcano": (
        HAMI_LEGACY,
        "the monitor of Volcano's vgpu-device-plugin (port 9394)",
        "Volcano's monitor shows a pod after its first CUDA call, and must show HostCoreUtilization",
    ),
}
"""By vendor: the source, what to scrape for it, and what it lacks where it is scraped."""


def advise(
    reasons: Collection[Reason], unseen: Iterable[GpuPod], metrics: Collection[str]
) -> list[tuple[Reason, str]]:
    """What would make Unknown pods visible, with the reason that it helps against; most general first.

    Args:
        reasons: The reasons of the Unknown verdicts.
        unseen: The pods without series.
        metrics: The metrics that Prometheus has.
    """
    found: list[tuple[Reason, str]] = []
    for reason, sentence in ADVICE.items():
        if reason in reasons:
            several = _for_unseen(unseen, metrics) if reason is Reason.NO_SERIES else [sentence]
            found += [(reason, one) for one in several]
    return found


def _for_unseen(pods: Iterable[GpuPod], metrics: Collection[str]) -> list[str]:
    """The exporter that each kind of unseen pod needs, or the setting if it is there."""
    found: dict[str, None] = {}
    for pod in pods:
        found[_one(pod, metrics)] = None
    return list(found)


def _one(pod: GpuPod, metrics: Collection[str]) -> str:
    rules = pod.devices.rules
    for rule in rules:
        if rule.vendor in EXPORTERS:
            source, name, needed = EXPORTERS[rule.vendor]
            return needed if _has(source, metrics) else f"scrape {name}"
    if any(rule.vendor == "hami" for rule in rules):
        present = _has(HAMI, metrics) or _has(HAMI_LEGACY, metrics)
        return (
            "HAMi's monitor shows a pod after its first CUDA call, with utilization, last kernel and card"
            if present
            else "scrape HAMi's monitor (vgpu-monitor, port 9394)"
        )
    if any(rule.unit is Unit.SLICE for rule in rules) and "DCGM_FI_PROF_GR_ENGINE_ACTIVE" not in metrics:
        return "MIG instances need DCGM_FI_PROF_GR_ENGINE_ACTIVE in dcgm-exporter's list of counters"
    if _has(DCGM, metrics) or _has(DCGM_1X, metrics):
        return ADVICE[Reason.NO_SERIES]
    return "Prometheus has no metrics of dcgm-exporter: install it (the GPU operator does) and scrape it"


def _has(source: Source, metrics: Collection[str]) -> bool:
    return any(metric.name in metrics for metric in source.metrics)
