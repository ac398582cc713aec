"""The cases of what policies may choose beside the threshold, and of faults before the window."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from policy.devices import Devices
from policy.terms import Reference
from policy.verdicts import Reason
from tests.reaper.judging.cases import AVERAGE, TERMS, Case, once
from tests.reaper.judging.cases_of_nvidia import COMPANIONS, allocation, host
from tests.reaper.judging.past import BUSY, HOUR, IDLE, LEGACY, NEW, Line, Value, dcgm, gpu, hami, steady

UNTOUCHED = replace(TERMS, never_touched=True)
OF_GIVEN = replace(TERMS, of=Reference.GIVEN)
CORES = Devices({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}, ("main",))
TWO = Devices({"nvidia.com/gpu": 2, "nvidia.com/gpucores": 100}, ("main", "side"))
XID = "DCGM_FI_DEV_XID_ERRORS"


def of_never_touched() -> Iterator[Case]:
    """A share that was given out and never used, where the policy lets that be idle."""
    never, unseen = Reason.NEVER_TOUCHED, Reason.NO_SERIES

    def case(sentence: str, pod: str, lines: list[Line], reason: Reason, **more: object) -> Case:
        terms = more.pop("terms", UNTOUCHED)
        shares = more.pop("devices", COMPANIONS)
        return Case(f"never touched: {sentence}", gpu(pod, devices=shares, **more), lines, reason, terms)  # type: ignore[arg-type]

    def card(pod: str, value: Value = IDLE) -> Line:
        return host("hami_host_gpu_utilization_ratio", pod, value)

    yield case("a policy may call it idle", "nt-idle", [allocation("nt-idle"), card("nt-idle")], never)
    lines = [allocation("nt-average"), card("nt-average")]
    yield case("by its average too", "nt-average", lines, never, terms=replace(AVERAGE, never_touched=True))
    lines = [allocation("nt-plain"), card("nt-plain")]
    yield case("without that choice it is unknown", "nt-plain", lines, never, terms=TERMS)
    yield case("not while the monitor of its card is away", "nt-dark", [allocation("nt-dark")], unseen)
    lines = [allocation("nt-gone"), card("nt-gone", lambda ago: None if ago < 600 else 0.0)]
    yield case("nor where it went away", "nt-gone", lines, Reason.STALE)
    lines = [allocation("nt-busy"), card("nt-busy", BUSY)]
    yield case("nor on a card that is busy", "nt-busy", lines, Reason.SIGNALS_DISAGREE)
    lines = [allocation("nt-short", since=1500), card("nt-short")]
    yield case("nor if it was given out within the window", "nt-short", lines, Reason.LOW_COVERAGE)
    lines = [allocation("nt-half"), card("nt-half")]
    yield case("nor one of two shares", "nt-half", lines, Reason.PARTIAL_DEVICES, devices=TWO)
    lines = [allocation("nt-young"), card("nt-young")]
    yield case("nor a pod that may be loading", "nt-young", lines, Reason.TOO_YOUNG, started=80 * 60)
    lines = [allocation("nt-used"), *hami("nt-used", kernel=None)]
    yield case("a pod with series of use is judged by them", "nt-used", lines, unseen)
    fault = Line(XID, {"UUID": "GPU-nt-fault", "job": "dcgm"}, once(900, 79.0, lasting=900))
    lines = [allocation("nt-fault"), card("nt-fault"), fault]
    yield case("nor on a device with a fault", "nt-fault", lines, Reason.DEVICE_FAULT)


def of_stopped_clocks() -> Iterator[Case]:
    """HAMi has no energy counter; the seconds since the last kernel show whether its monitor lives."""
    frozen, idle = Reason.FROZEN_EXPORTER, Reason.BELOW_THRESHOLD
    for pod, names in (("clock-new", NEW), ("clock-legacy", LEGACY)):
        lines = hami(pod, kernel=steady(9 * HOUR), names=names)
        sentence = f"{pod}: a last kernel that is always as long ago is of a frozen monitor"
        yield Case(sentence, gpu(pod, devices=COMPANIONS), lines, frozen)
    lines = hami("clock-busy", kernel=steady(3.0))
    sentence = "clock-busy: one that is always short ago is of a busy pod"
    yield Case(sentence, gpu("clock-busy", devices=COMPANIONS), lines, Reason.RECENT_KERNEL)
    lately: Value = lambda ago: 9 * HOUR - max(ago, 700)  # noqa: E731
    lines = hami("clock-lately", kernel=lately)
    sentence = "clock-lately: a monitor that froze ten minutes ago"
    yield Case(sentence, gpu("clock-lately", devices=COMPANIONS), lines, frozen)
    lines = hami("clock-runs")
    yield Case("clock-runs: a monitor that lives", gpu("clock-runs", devices=COMPANIONS), lines, idle)


def of_given_cores() -> Iterator[Case]:
    """Utilization as a percentage of what the pod was given."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    for name, util, terms, reason in (
        ("card", 4.0, TERMS, idle),
        ("given", 4.0, OF_GIVEN, busy),
        ("less", 1.0, OF_GIVEN, idle),
    ):
        pod = f"cores-{name}"
        sentence = f"of 30 % of a card, {util} % of the card, judged by the {terms.of}"
        yield Case(sentence, gpu(pod, devices=CORES), hami(pod, util=steady(util)), reason, terms)
    pod = "cores-legacy"
    lines = hami(pod, util=steady(4.0), names=LEGACY)
    yield Case("HAMi legacy: by the given cores", gpu(pod, devices=CORES), lines, busy, OF_GIVEN)
    pod = "cores-mean"
    lines = hami(pod, util=steady(4.0))
    terms = replace(AVERAGE, of=Reference.GIVEN)
    yield Case("the average of the given cores", gpu(pod, devices=CORES), lines, busy, terms)
    pod = "cores-none"
    lines = hami(pod, util=steady(4.0))
    yield Case(
        "without a limit all of the card was given", gpu(pod, devices=COMPANIONS), lines, idle, OF_GIVEN
    )


def of_last_faults() -> Iterator[Case]:
    """The last code of a device, which stays until a reset."""
    idle, fault = Reason.BELOW_THRESHOLD, Reason.DEVICE_FAULT

    def since(ago: float, code: float, before: float = 0.0) -> Value:
        return lambda when: code if when <= ago else before

    past: dict[str, tuple[str, Value, Reason]] = {
        "xid-old": ("one from before the window does not bar for ever", since(2 * HOUR, 79.0), idle),
        "xid-fresh": ("one within the window does", since(1800, 79.0), fault),
        "xid-other": ("so does another code after an old one", since(1800, 31.0, before=79.0), fault),
        "xid-again": (
            "so does the same code after a restart",
            lambda ago: 0.0 if 1800 < ago < 2000 else 79.0,
            fault,
        ),
        "xid-edge": ("one right before the window does not", since(HOUR + 60, 79.0), idle),
        "xid-unseen": (
            "one of which nobody knows since when does",
            lambda ago: 79.0 if ago < 3000 else None,
            fault,
        ),
        "xid-gap": (
            "a gap in the scrapes makes no old code new",
            lambda ago: None if 900 < ago < 960 else 79.0,
            idle,
        ),
        "xid-zero": ("no code at all does not", IDLE, idle),
    }
    for pod, (sentence, value, reason) in past.items():
        yield Case(f"Xid: {sentence}", gpu(pod), dcgm(pod, extra={XID: value}), reason)
    stuck = dcgm("remap-old", extra={"DCGM_FI_DEV_ROW_REMAP_FAILURE": steady(1.0)})
    yield Case("a row that cannot be remapped is a fault as long as it is", gpu("remap-old"), stuck, fault)
