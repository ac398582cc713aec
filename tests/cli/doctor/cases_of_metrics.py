"""What can be wrong with Prometheus and exporters: facts, check, level, and words of its todo."""

from __future__ import annotations

from cli.doctor.facts import Family
from reaper.signals import Board
from tests.cli.doctor.healthy import (
    busy,
    healthy,
    metric_facts,
    policy,
    with_metrics,
)
from tests.cli.doctor.wrong import (
    BOTH,
    ERROR,
    INFO,
    NO_PODS,
    UNKNOWN,
    WARNING,
    Case,
    policies,
    shares,
)
from tests.reaper.judging.made import ENGINE, device, reading
from tests.reaper.judging.past import gpu

OF_METRICS: list[Case] = [
    (
        "no address",
        healthy(metrics=metric_facts(observation=None, url="", problem="no address is known")),
        "prometheus.answers",
        UNKNOWN,
        "--prometheus-url",
    ),
    (
        "not reachable as a person said",
        healthy(metrics=metric_facts(observation=None, given=True, problem="refused")),
        "prometheus.answers",
        ERROR,
        "check address",
    ),
    (
        "not reachable as the reaper is told",
        healthy(metrics=metric_facts(observation=None, problem="refused")),
        "prometheus.answers",
        UNKNOWN,
        "port-forward",
    ),
    ("a clock that is behind", with_metrics(busy(), ahead_seconds=-300.0), "prometheus.clock", ERROR, "NTP"),
    (
        "a target is down",
        with_metrics(busy(), down=("dcgm 10.0.0.1:9400",)),
        "prometheus.targets",
        WARNING,
        "exporter's pods",
    ),
    ("no exporter", with_metrics(families=()), "prometheus.exporters", ERROR, "install dcgm-exporter"),
    (
        "nothing that proves",
        with_metrics(families=(Family("DCGM_FI_DEV_FB_USED", "dcgm", BOTH),)),
        "prometheus.exporters",
        WARNING,
        "counters",
    ),
    ("an unseen pod", healthy(metrics=NO_PODS), "prometheus.pods", WARNING, "DCGM_EXPORTER_KUBERNETES"),
    ("a young pod", with_metrics(busy(), pod=gpu("p", 1, started=60)), "prometheus.pods", INFO, "older"),
    (
        "long windows raw",
        healthy(policies=policies(policy(idle={"action": "evict", "after": "12h"}))),
        "prometheus.long-windows",
        INFO,
        "longWindows=[dcgm]",
    ),
    (
        "the reaper is not scraped",
        with_metrics(busy(), brake=None),
        "prometheus.own-metrics",
        INFO,
        "serviceMonitor",
    ),
    (
        "frozen",
        with_metrics(busy(), boards={"GPU-0": Board(moved=0.0)}),
        "exporters.frozen",
        WARNING,
        "restart dcgm-exporter",
    ),
    (
        "profiling is stuck",
        with_metrics(device(reading(maximum=80.0), reading(ENGINE, maximum=0.0))),
        "exporters.profiling",
        WARNING,
        "other profilers",
    ),
    (
        "every sharer is at zero",
        shares(0.0, 0.0, virtual=True, watts=300.0),
        "exporters.host-pid",
        WARNING,
        "hostPID",
    ),
    ("HAMi says zero", shares(0.0, 0.0), "exporters.sharers", WARNING, "gpucores"),
    ("no series names a pod", healthy(metrics=NO_PODS), "exporters.pod-labels", WARNING, "pod-resources"),
    (
        "two scrapers",
        with_metrics(busy(), crowded={"dcgm": ("GPU-0",)}),
        "exporters.scraped-twice",
        WARNING,
        "one scrape job",
    ),
]
