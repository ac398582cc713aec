"""Rounds of the certificates' only writer: read, decide, write, make it trusted; the decisions are pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from certs import metrics
from certs.bundle import Bundle
from certs.configurations import Configurations, Trust
from certs.issue import SYSTEM, Randomness
from certs.rotation import Decision, Plan, Step, advance, decide
from certs.store import SecretStore
from runtime.clock import Clock, Sleep

STEPS_PER_ROUND = 8
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Rules:
    """What is wanted, and how long in seconds every API server may take to read a new caBundle."""

    plan: Plan
    settle_seconds: float
    randomness: Randomness = SYSTEM


@dataclass(frozen=True)
class Situation:
    """What a round ended with."""

    bundle: Bundle
    trusts: tuple[Trust, ...]
    decision: Decision


class Keeper:
    """Keeps Secrets and caBundles as they should be. `may_write` is asked right before every write."""

    def __init__(
        self,
        store: SecretStore,
        configurations: Configurations,
        rules: Rules,
        clock: Clock,
        *,
        may_write: Callable[[], bool] = lambda: True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.last_ended = clock.monotonic()
        self._store = store
        self._configurations = configurations
        self._rules = rules
        self._clock = clock
        self._may_write = may_write
        self._sleep = sleep
        # Which CA was seen to be trusted everywhere, and since when.
        self._seen: tuple[str, float] | None = None

    async def round(self) -> Situation:
        """Does all that can be done now; raises ApiError or ApiUnreachable, after which nothing is lost."""
        for _ in range(STEPS_PER_ROUND):
            situation = await self._step()
            if situation.decision.step in (Step.KEEP, Step.WAIT):
                break
        self.last_ended = self._clock.monotonic()
        metrics.show(situation.bundle, situation.trusts)
        return situation

    async def until_kept(self, pause_seconds: float) -> Situation:
        """Repeats rounds until nothing is left to do and every caBundle has what it should."""
        while True:
            situation = await self.round()
            if situation.decision.step is Step.KEEP and self._trusted(situation.bundle, situation.trusts):
                return situation
            await self._sleep(pause_seconds)

    async def _step(self) -> Situation:
        """Takes one decision and writes what comes of it, then makes the API server trust it."""
        bundle = await self._store.load()
        trusts = await self._configurations.read()
        now = self._clock.now()
        decision = decide(bundle, self._rules.plan, now, settled=self._settled(bundle, trusts))
        if decision.step not in (Step.KEEP, Step.WAIT):
            bundle = await self._write(bundle, decision, now)
        if bundle.signer is not None and self._may_write():
            if await self._configurations.write(bundle.authorities_pem):
                log.info("caBundles written", authorities=len(bundle.authorities))
            trusts = await self._configurations.read()
        self._look(bundle, trusts)
        return Situation(bundle, trusts, decision)

    async def _write(self, bundle: Bundle, decision: Decision, now: datetime) -> Bundle:
        """Writes a step. A new CA is trusted before a leaf of it is served, even when all is lost."""
        if not self._may_write():
            return bundle
        advanced = advance(bundle, decision, self._rules.plan, now, self._rules.randomness)
        if decision.step is Step.RENEW_LEAF:
            await self._configurations.write(advanced.authorities_pem)
        await self._store.save(advanced)
        metrics.STEPS.labels(decision.step, str(decision.urgent).lower()).inc()
        say = log.warning if decision.urgent else log.info
        say("certificates changed", step=decision.step, reason=decision.reason, urgent=decision.urgent)
        return advanced

    def _look(self, bundle: Bundle, trusts: tuple[Trust, ...]) -> None:
        """Remembers since when the signer is trusted everywhere."""
        signer = bundle.signer_certificate
        if signer is None or not self._trusted(bundle, trusts):
            self._seen = None
        elif self._seen is None or self._seen[0] != signer.fingerprint:
            self._seen = (signer.fingerprint, self._clock.monotonic())

    def _settled(self, bundle: Bundle, trusts: tuple[Trust, ...]) -> bool:
        """Whether the signer has been trusted everywhere for as long as API servers may need."""
        signer = bundle.signer_certificate
        if self._seen is None or signer is None or self._seen[0] != signer.fingerprint:
            return False
        return (
            self._trusted(bundle, trusts)
            and self._clock.monotonic() - self._seen[1] >= self._rules.settle_seconds
        )

    @staticmethod
    def _trusted(bundle: Bundle, trusts: tuple[Trust, ...]) -> bool:
        """Whether every webhook trusts the signer; true where no webhook is installed."""
        signer = bundle.signer_certificate
        return signer is not None and all(trust.trusts(signer) for trust in trusts)
