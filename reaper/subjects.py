"""One pod with everything that planning weighs; must not know how any of it was found out."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from policy.snooze import Snooze
from policy.spec import BUILT_IN, GPUPolicy
from policy.terms import Action, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.evidence import Verdict
from reaper.marks import Mark
from reaper.owners import Root
from reaper.pods import GpuPod

KEPT_BY = frozenset({Reason.FINISHED, Reason.TERMINATING})
"""Skips of pods that hold no device any more, or soon will not: they protect nobody."""


class Subject(Struct, frozen=True, kw_only=True):
    """A pod in one cycle.

    Attributes:
        pod: The pod.
        root: Its root owner.
        policy: The policy that applies, as it is today.
        terms: The terms that hold for it now; None if nothing can be said.
        ceiling: The strongest action allowed.
        skip: Why it is left alone whatever its verdict; None if it is not.
        verdict: What Prometheus shows; None if it was not judged.
        snooze: The user's snooze, bounded; its `until` is None if nothing keeps the pod now.
        may_act_now: False outside of the policy's act window.
        mark: What was written on it before.
        last_idle: Until when this process has seen it Idle without a break.
        streak: Idle verdicts in a row, this one included.
    """

    pod: GpuPod
    root: Root
    policy: GPUPolicy = BUILT_IN
    terms: Terms | None = None
    ceiling: Action = Action.OBSERVE
    skip: Reason | None = None
    verdict: Verdict | None = None
    snooze: Snooze = Snooze()
    may_act_now: bool = True
    mark: Mark | None = None
    last_idle: datetime | None = None
    streak: int = 0

    @property
    def idle(self) -> bool:
        """True if the verdict is Idle."""
        return self.verdict is not None and self.verdict.kind is VerdictKind.IDLE

    @property
    def devices(self) -> int:
        """Devices the pod holds."""
        return self.pod.devices.devices

    def contact(self, otherwise: str) -> str:
        """Gives whom to ask about the pod; `otherwise` where its policy names nobody."""
        return str(self.policy.contact) or otherwise

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity and order: namespace, name, UID."""
        return (self.pod.namespace, self.pod.name, self.pod.uid)

    @property
    def holds_devices(self) -> bool:
        """False for pods that are finished or going."""
        return self.skip not in KEPT_BY
