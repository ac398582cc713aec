"""Hypothesis strategies for the values of the contract."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from policy.durations import Duration, duration_of
from policy.gpupolicy import GPUPolicy, parse_policy
from policy.memory import MemoryLimit, parse_memory
from policy.terms import Action, Reference, Statistic, Terms


def durations(lowest: int = 0) -> st.SearchStrategy[Duration]:
    """Durations in canonical spelling, up to some days."""
    return st.integers(lowest, 10 * 86_400).map(duration_of)


def memories() -> st.SearchStrategy[MemoryLimit]:
    """Absolute and relative memory limits."""
    absolute = st.sampled_from(["500Mi", "1Gi", "1G", "4096", "2e3"])
    relative = st.integers(1, 100).map(lambda percent: f"{percent}pct")
    return st.one_of(absolute, relative).map(parse_memory)


def terms() -> st.SearchStrategy[Terms]:
    """Terms of any kind; exempt ones observe."""
    plain = st.builds(
        Terms,
        action=st.sampled_from(Action),
        after=durations(1),
        utilization=st.integers(1, 100),
        statistic=st.sampled_from(Statistic),
        memory=st.none() | memories(),
        grace=durations(),
        warm_up=durations(),
        exempt=st.just(False),
    )
    exempt = st.builds(
        Terms,
        action=st.just(Action.OBSERVE),
        after=durations(1),
        utilization=st.integers(1, 100),
        statistic=st.sampled_from(Statistic),
        memory=st.none() | memories(),
        grace=durations(),
        warm_up=durations(),
        exempt=st.just(True),
    )
    return plain | exempt


def _idle_blocks() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "action": st.sampled_from([action.value for action in Action]),
            "after": durations(1).map(str),
            "utilization": st.integers(1, 100),
            "statistic": st.sampled_from([statistic.value for statistic in Statistic]),
            "memory": memories().map(str),
            "grace": durations().map(str),
            "warmUp": durations().map(str),
            "of": st.sampled_from([reference.value for reference in Reference]),
            "neverTouched": st.booleans(),
        },
    )


@st.composite
def policies(draw: st.DrawFn, name: str = "p") -> GPUPolicy:
    """Valid policies, as they would be written."""
    low, high = sorted([draw(durations(1)), draw(durations(1))], key=lambda duration: duration.seconds)
    bounds: dict[str, Any] = {}
    if draw(st.booleans()):
        bounds["after"] = {"min": low.text, "max": high.text}
    if draw(st.booleans()):
        bounds["grace"] = draw(durations()).text
    bounds["exemption"] = draw(st.sampled_from(["never", "1h", "14d"]))
    spec: dict[str, Any] = {"bounds": bounds, "idle": draw(_idle_blocks())}
    names = ("interactive", "batch", "serving")
    spec["classes"] = {name: {"idle": draw(_idle_blocks())} for name in names if draw(st.booleans())}
    return parse_policy({"metadata": {"name": name}, "spec": spec})


def label_wishes() -> st.SearchStrategy[dict[str, str]]:
    """Term labels as users write them: good, out of bounds, malformed, or absent."""
    texts = st.sampled_from(["", "?", "0s", "1", "101", "evict", "5pct", "1h"])
    return st.fixed_dictionaries(
        {},
        optional={
            "gpu-tenure.io/idle-action": st.sampled_from([*Action, "exempt", "never"]).map(str) | texts,
            "gpu-tenure.io/idle-after": durations().map(str) | texts,
            "gpu-tenure.io/idle-utilization": st.integers(0, 120).map(str) | texts,
            "gpu-tenure.io/idle-statistic": st.sampled_from(Statistic).map(str) | texts,
            "gpu-tenure.io/idle-memory": memories().map(lambda memory: memory.text) | texts,
            "gpu-tenure.io/idle-grace": durations().map(str) | texts,
            "gpu-tenure.io/idle-warm-up": durations().map(str) | texts,
        },
    )
