"""Does to the sandbox what a fault says, and puts it right again; knows not what should come of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from sandbox.activity import GARBAGE
from sandbox.cluster import Sandbox
from sandbox.deadline import wait
from sandbox.faults import Fault, FaultProxy
from sandbox.parts import EXPORTER
from sandbox.soak.cast import Cast
from sandbox.soak.faults import Blow, Kind
from sandbox.soak.reapers import Reapers

KILLED_LIMIT_SECONDS = 20.0
STOPPED_LIMIT_SECONDS = 3.0
SLOW_ANSWER_SECONDS = 9.0
RESTARTED = ("scheduler", "controller-manager", "kwok")
"""Parts that may end by themselves when the API server went, as they do; a kubelet would start them again."""
VALUE = re.compile(rb" [0-9.e+-]+$", re.MULTILINE)


@dataclass
class Breaker:
    """Strikes one blow after the other.

    Attributes:
        late: Hand-overs that took too long, a sentence each.
        handovers: Seconds of each hand-over, by kind of fault.
    """

    sandbox: Sandbox
    reapers: Reapers
    cast: Cast
    rng: random.Random
    linger: Callable[[float], None]
    late: list[str] = field(default_factory=list)
    handovers: dict[Kind, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Puts a proxy between Prometheus and the exporter."""
        self.exporter = FaultProxy(self.sandbox.exporter_url)
        self.sandbox.on_close(self.exporter.close)
        target = self.exporter.url.removeprefix("http://")
        jobs = [replace(job, target=target) for job in self.sandbox.scrape_jobs if job.name == "dcgm"]
        self.sandbox.configure_prometheus(jobs)

    def revive(self) -> None:
        """Starts what has ended by itself."""
        for part in RESTARTED:
            if not self.sandbox.running(part):
                self.sandbox.start_part(part)

    def strike(self, blow: Blow) -> None:
        """Lets a fault come and go."""
        at_once: Mapping[Kind, Callable[[], object]] = {
            Kind.LEADER_KILLED: lambda: self._hand_over(blow.kind, self.reapers.kill, KILLED_LIMIT_SECONDS),
            Kind.LEADER_STOPPED: lambda: self._hand_over(blow.kind, self.reapers.stop, STOPPED_LIMIT_SECONDS),
            Kind.RECREATED: self.cast.recreate,
            Kind.AWAKE: self.cast.wake,
        }
        self.revive()
        if blow.kind in at_once:
            at_once[blow.kind]()
            return
        with self._lasting(blow):
            self.linger(blow.seconds)
        # What was cut off answers again before the next fault, or faults would add up without end.
        wait(self._answers, 60, "the API server answers again", poll=0.2)

    def _lasting(self, blow: Blow) -> AbstractContextManager[None]:
        killed = {
            Kind.API_KILLED: "apiserver",
            Kind.PROMETHEUS_KILLED: "prometheus",
            Kind.EXPORTER_KILLED: EXPORTER,
        }
        frozen = {Kind.API_FROZEN: "apiserver", Kind.PROMETHEUS_FROZEN: "prometheus"}
        if blow.kind in killed:
            return self._killed(killed[blow.kind])
        if blow.kind in frozen:
            return self._frozen(frozen[blow.kind])
        if blow.kind is Kind.LEADER_FROZEN:
            return self.reapers.frozen(self.reapers.leader())
        if blow.kind is Kind.BUSY_GARBAGE:
            return self._spoilt()
        proxy = self.exporter if blow.kind is Kind.EXPORTER_GARBAGE else self.reapers.proxy_of_leader()
        return self._faulty(proxy, fault_of(blow.answer, self.rng))

    @contextmanager
    def _killed(self, part: str) -> Iterator[None]:
        self.sandbox.kill(part)
        try:
            yield
        finally:
            self.sandbox.start_part(part)

    @contextmanager
    def _frozen(self, part: str) -> Iterator[None]:
        self.sandbox.suspend(part)
        try:
            yield
        finally:
            self.sandbox.resume(part)

    @contextmanager
    def _spoilt(self) -> Iterator[None]:
        mend = self.cast.spoil()
        try:
            yield
        finally:
            mend()

    @contextmanager
    def _faulty(self, proxy: FaultProxy, fault: Fault) -> Iterator[None]:
        proxy.fault = fault
        try:
            yield
        finally:
            proxy.fault = Fault()

    def _hand_over(self, kind: Kind, end: Callable[[str], None], limit: float) -> None:
        name = self.reapers.leader()
        identity = self.reapers.holder()
        end(name)
        seconds = self.reapers.wait_other(identity)
        self.handovers.setdefault(kind, []).append(seconds)
        if seconds > limit:
            self.late.append(f"{kind}: the other took over after {seconds:.1f} s, more than {limit:.0f} s")
        self.reapers.start(name)

    def _answers(self) -> bool:
        return self.sandbox.api().raw("GET", "/readyz").status == 200


def fault_of(answer: str, rng: random.Random) -> Fault:
    """Gives the fault of a proxy that answers so."""
    value = f" {rng.choice(GARBAGE)!r}".encode()
    faults: Mapping[str, Fault] = {
        "hang": Fault("hang"),
        "reset": Fault("reset"),
        "html": Fault("html"),
        "truncate": Fault("truncate"),
        "status": Fault("status", status=500),
        "delay": Fault("delay", seconds=SLOW_ANSWER_SECONDS),
        "rewrite": Fault("rewrite", rewrite=lambda body: VALUE.sub(value, body)),
    }
    return faults[answer]
