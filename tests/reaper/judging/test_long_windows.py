"""The recording rules: one of each part for every series that judging asks for, and none twice."""

from __future__ import annotations

import re
from collections import Counter

from reaper.exporters import DCGM, SOURCES
from reaper.long_windows import RECORDED_ROLES, Part, groups, recorded_name


def test_every_metric_that_judging_counts_is_recorded_once() -> None:
    """Promtool calls two rules of one name inconsistent."""
    wanted = Counter(
        recorded_name(metric, part)
        for source in SOURCES
        for metric in source.metrics
        if metric.role in RECORDED_ROLES
        for part in Part
    )
    assert set(wanted.values()) == {1}
    assert Counter(rule["record"] for group in groups(SOURCES) for rule in group["rules"]) == wanted


def test_forms_are_told_apart_by_their_labels() -> None:
    """Series of one form would otherwise hide those of another."""
    for source, group in zip(SOURCES, groups(SOURCES), strict=True):
        forms = {recorded_name(one, Part.MAXIMUM): len(source.forms_of(one)) for one in source.metrics}
        for rule in group["rules"]:
            kept = re.findall(r"max by \(([^)]*)\)", rule["expr"])
            assert len(set(kept)) == len(kept)
            if rule["record"] in forms:
                assert len(kept) == forms[rule["record"]]


def test_names_follow_the_convention() -> None:
    """level:metric:operation."""
    for group in groups(SOURCES):
        for rule in group["rules"]:
            assert re.fullmatch(r"device:[A-Za-z_][A-Za-z0-9_]*:(max|avg|samples)5m", rule["record"])
    assert recorded_name(DCGM.metrics[0], Part.MAXIMUM) == "device:DCGM_FI_DEV_GPU_UTIL:max5m"
