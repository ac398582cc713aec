"""Judges one pod from its terms and its signals: a pure function; knows no Prometheus and no API.

Idle needs every device of the pod, and every signal that exists, to agree over the whole window. One busy
sample makes the pod Active; whatever is missing or odd makes it Unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from policy.terms import Reference, Statistic, Terms
from policy.verdicts import REASONS, Reason, VerdictKind
from reaper import findings, holdings
from reaper.criteria import JudgeSettings
from reaper.evidence import Evidence, SignalEvidence, Verdict
from reaper.findings import Finding, unknown
from reaper.observation import Observation
from reaper.pods import GpuPod
from reaper.signals import Board, Device, Signals
from reaper.sources import Role, Sharing

__all__ = ["Evidence", "JudgeSettings", "SignalEvidence", "Verdict", "judge"]

PRECEDENCE: Final = (
    Reason.ABOVE_THRESHOLD,
    Reason.RECENT_KERNEL,
    Reason.MEMORY_HELD,
    Reason.NO_SERIES,
    Reason.NEVER_TOUCHED,
    Reason.PARTIAL_DEVICES,
    Reason.UNSUPPORTED_SOURCE,
    Reason.STALE,
    Reason.INTERVAL_UNKNOWN,
    Reason.GARBAGE_SAMPLES,
    Reason.LOW_COVERAGE,
    Reason.DEVICE_FAULT,
    Reason.FROZEN_EXPORTER,
    Reason.SHARED_DEVICE,
    Reason.SIGNALS_DISAGREE,
    Reason.MEMORY_UNKNOWN,
)
"""Which finding names the verdict: proof of activity first, then what is most basic among what is missing."""

_RANKS: Final = {reason: rank for rank, reason in enumerate(PRECEDENCE)}


def judge(
    pod: GpuPod, terms: Terms, observation: Observation, now: datetime, settings: JudgeSettings
) -> Verdict:
    """Whether a pod is idle by its terms, from what was observed."""
    signals = observation.covering(terms.after.seconds)
    window = signals.seconds if signals else terms.after.seconds
    barred = _barred(pod, terms, window, observation, now, settings)
    if barred is not None or signals is None:
        found = barred or unknown(Reason.NO_SERIES, "the window was not observed")
        evidence = Evidence(window, terms.utilization, terms.statistic.value, pod.devices.devices)
        return Verdict(found.kind, found.reason, None, False, evidence, found.sentence)
    return _Case(pod, terms, signals, observation.observed_at, settings).verdict()


def _barred(
    pod: GpuPod, terms: Terms, window: int, observation: Observation, now: datetime, settings: JudgeSettings
) -> Finding | None:
    """Why a pod cannot be judged whatever its metrics say."""
    if pod.devices.problems:
        return unknown(Reason.UNREADABLE_DEVICES, str(pod.devices.problems[0]))
    unseen = holdings.unseen(pod, settings.vendors)
    if unseen is not None:
        return unknown(Reason.UNSUPPORTED_SOURCE, unseen)
    if pod.containers_started is None or pod.phase != "Running":
        return unknown(Reason.NOT_STARTED, "a container that holds devices is not running")
    if not observation.complete:
        # What is wrong is said once for all pods, by whoever holds the observation.
        reason = observation.problem or Reason.PROMETHEUS_UNAVAILABLE
        return unknown(reason, REASONS[reason])
    if (now - observation.observed_at).total_seconds() > settings.limit_seconds + settings.fresh_seconds:
        return unknown(Reason.STALE, "the observation is too old")
    old_enough = pod.containers_started + timedelta(seconds=window) + terms.warm_up.delta
    if old_enough > observation.observed_at:
        # Before that a pod of the same name may have left its samples in the window.
        return unknown(Reason.TOO_YOUNG, f"can be judged from {old_enough:%Y-%m-%d %H:%MZ}")
    return None


class _Case:
    """One pod with its signals."""

    def __init__(
        self, pod: GpuPod, terms: Terms, signals: Signals, at: datetime, settings: JudgeSettings
    ) -> None:
        self.pod = pod
        self.terms = terms
        self.signals = signals
        self.at = at
        self.settings = settings
        self.parts = holdings.asks_for_slices(pod)
        self.shares = holdings.asks_for_shares(pod)
        self.devices = tuple(holdings.devices(pod, signals, settings.sources))
        if terms.of is Reference.GIVEN:
            self.devices = tuple(holdings.of_given(pod, device) for device in self.devices)
        self.untouched = () if self.devices else signals.allocated.get((pod.namespace, pod.name), ())
        """The shares that were given to the pod, if no series tells that it has ever used one."""
        self.activity = [reading for device in self.devices for reading in device.of(Role.ACTIVITY)]
        self.seen = {device.name for device in self.devices if holdings.proves(device.of(Role.ACTIVITY))}
        """The devices with a signal that could prove idleness."""

    def verdict(self) -> Verdict:
        """The verdict with its evidence."""
        by_device: dict[str, list[Finding]] = {}
        for device in self.devices:
            # Labels that change, such as a UID that is added, make two of one device for a while.
            by_device.setdefault(device.name, []).extend(self._of_device(device))
        found = [*self._of_pod(), *(one for several in by_device.values() for one in several)]
        idle = sum(not by_device[name] for name in self.seen)
        evidence = self._evidence(found, idle)
        if found:
            worst = min(found, key=lambda one: _RANKS[one.reason])
            return Verdict(worst.kind, worst.reason, None, False, evidence, worst.sentence)
        return Verdict(
            VerdictKind.IDLE,
            Reason.NEVER_TOUCHED if self.untouched else Reason.BELOW_THRESHOLD,
            self._idle_since(),
            (evidence.memory or 0) >= self.settings.parked_bytes,
            evidence,
            self._sentence(evidence),
        )

    def _of_pod(self) -> Iterator[Finding]:
        """What the pod as a whole lacks."""
        if self.untouched:
            yield from self._of_untouched()
        elif not self.seen:
            lacking = (
                "no metric tells whether its devices compute" if self.devices else "no metrics name this pod"
            )
            yield unknown(Reason.NO_SERIES, lacking)
        elif (partial := holdings.partial(self.pod, self.devices)) is not None:
            yield unknown(Reason.PARTIAL_DEVICES, partial)

    def _of_untouched(self) -> Iterator[Finding]:
        """A share that nobody used is idle only if the policy says so, and all would have shown its use.

        The allocation covers the window, and so does the monitor of the card, which shows the card at rest.
        """
        if not self.terms.never_touched:
            yield unknown(Reason.NEVER_TOUCHED, "devices were allocated, and no process has used them")
            return
        given, asked = len({device.name for device in self.untouched}), self.pod.devices.devices
        if given != asked:
            yield unknown(Reason.PARTIAL_DEVICES, f"{given} of {asked} devices were allocated")
        for device in self.untouched:
            board = self.signals.boards.get(device.device, Board())
            for reading in device.of(Role.ALLOCATED):
                lacking = findings.quality(device.name, reading, self.at, self.settings)
                if lacking is not None:
                    yield lacking
            yield from self._of_card(device, board)
            yield from findings.vetoes(device.device, board)

    def _of_device(self, device: Device) -> Iterator[Finding]:
        """What speaks against calling one device idle."""
        board = self.signals.boards.get(device.device, Board())
        parts = (
            self._of_share(device, board)
            if device.sharing is Sharing.SHARE
            else self._of_whole(device, board)
        )
        yield from parts
        working = findings.processes(device, self.terms)
        if working is not None:
            yield working
        yield from findings.vetoes(device.device, board)

    def _of_whole(self, device: Device, board: Board) -> Iterator[Finding]:
        shared = self._is_shared(device, board)
        for reading in device.of(Role.ACTIVITY):
            found = findings.activity(device.name, reading, self.terms, self.at, self.settings)
            if found is not None and not (shared and found.kind is VerdictKind.ACTIVE):
                yield found
        if shared:
            yield from self._of_sharers(device, board)
        others = (
            None if shared else findings.whole(device, board, self.terms),
            findings.host(device.name, board, self.terms, shared),
            findings.rest(device, board, self.settings),
        )
        yield from (found for found in others if found is not None)
        yield from self._of_memory(device, shared)

    def _of_sharers(self, device: Device, board: Board) -> Iterator[Finding]:
        """A shared device clears its pods only if it did nothing at all for the whole window."""
        resting = holdings.at_rest(device, board)
        if resting is None:
            sentence = f"{device.name} is shared, and not known to be at rest for all who share it"
            yield unknown(Reason.SHARED_DEVICE, sentence)
        for reading in resting or ():
            lacking = findings.quality(device.name, reading, self.at, self.settings)
            if lacking is not None and reading.metric.principal:
                yield lacking

    def _of_share(self, device: Device, board: Board) -> Iterator[Finding]:
        """A share is idle only if its utilization, its last kernel and the physical card agree."""
        for reading in device.of(Role.ACTIVITY):
            found = findings.activity(device.name, reading, self.terms, self.at, self.settings)
            if found is not None:
                yield found
        kernels = [
            reading
            for one in self.devices
            for reading in one.of(Role.KERNEL)
            if one.container == device.container
        ]
        if not kernels:
            yield unknown(Reason.NO_SERIES, f"no metric tells the last kernel of {device.name}")
        for reading in kernels:
            found = findings.kernel(device.name, reading, self.terms, self.at, self.settings)
            if found is not None:
                yield found
        yield from self._of_card(device, board)
        yield from self._of_memory(device, shared=False)

    def _of_card(self, device: Device, board: Board) -> Iterator[Finding]:
        """What the physical card says: it must be covered by metrics, and at rest."""
        if not board.host:
            yield unknown(Reason.NO_SERIES, f"no metric tells the utilization of the card of {device.name}")
        for reading in board.host:
            lacking = findings.quality(device.device, reading, self.at, self.settings)
            if lacking is not None:
                yield lacking
        users = self.signals.users.get(device.device, frozenset())
        others = bool(users - {(self.pod.namespace, self.pod.name)})
        found = findings.host(device.name, board, self.terms, others)
        if found is not None:
            yield found
        elif any(value >= self.terms.utilization for value in board.activity.values()):
            reason = Reason.SHARED_DEVICE if others else Reason.SIGNALS_DISAGREE
            yield unknown(reason, f"another exporter saw {device.device} busy")

    def _of_memory(self, device: Device, shared: bool) -> Iterator[Finding]:
        if self.terms.memory is None or not device.of(Role.ACTIVITY):
            return
        found = findings.memory(device, self.terms.memory, self.at, self.settings)
        if found is not None and shared:
            found = unknown(Reason.MEMORY_UNKNOWN, f"the memory of {device.name} cannot be told apart by pod")
        if found is not None:
            yield found

    def _is_shared(self, device: Device, board: Board) -> bool:
        """Whether others may use the device: its series or the pod's resources say so."""
        users = board.pods.get(device.instance, frozenset())
        return device.virtual or len(users) > 1 or self.shares or (self.parts and not device.instance)

    def _idle_since(self) -> datetime:
        """The start of the idle stretch: before the window as far as all signals reach, else the window's."""
        start = self.at - timedelta(seconds=self.signals.seconds)
        if self.terms.statistic is Statistic.AVERAGE or self.untouched:
            return start
        cards = (self.signals.boards.get(device.device, Board()) for device in self.devices)
        since: list[datetime | None] = [
            holdings.calm_since(reading, self.terms.utilization)
            for reading in (*self.activity, *(reading for card in cards for reading in card.host))
        ]
        since += [reading.ran_at for device in self.devices for reading in device.of(Role.KERNEL)]
        known = [time for time in since if time is not None]
        if len(known) < len(since) or not known or self.pod.containers_started is None:
            return start
        return min(start, max(*known, self.pod.containers_started))

    def _evidence(self, found: Sequence[Finding], idle: int) -> Evidence:
        activity = self.activity or [one for device in self.untouched for one in device.readings]
        worst = min(activity, key=lambda one: one.coverage or 0.0, default=None)
        maxima = [reading.maximum for reading in self.activity if reading.maximum is not None]
        boards = self.signals.boards
        held = [value for one in self.devices if (value := holdings.held(one, boards)) is not None]
        return Evidence(
            window=self.signals.seconds,
            utilization=self.terms.utilization,
            statistic=self.terms.statistic.value,
            devices_expected=self.pod.devices.devices,
            devices_seen=len(self.seen),
            devices_idle=idle,
            maximum=max(maxima, default=None),
            samples=min(worst.samples, worst.expected) if worst else 0,
            expected_samples=worst.expected if worst else 0,
            memory=round(max(held)) if held else None,
            vetoes=tuple(dict.fromkeys(one.sentence for one in found if one.kind is VerdictKind.UNKNOWN)),
            signals=tuple(holdings.signals(self.devices or self.untouched, boards, self.terms.utilization)),
        )

    def _sentence(self, evidence: Evidence) -> str:
        counted = f"{evidence.samples} of {evidence.expected_samples} samples"
        if self.untouched:
            return f"allocated in {counted}, and no process has used it"
        if self.terms.statistic is Statistic.AVERAGE:
            mean = max((reading.average or 0.0 for reading in self.activity), default=0.0)
            return f"average {mean:.3g} % of {counted}, below {self.terms.utilization} %"
        return f"{counted} below {self.terms.utilization} %"
