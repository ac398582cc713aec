"""Rounds of the certificates' only writer: read, decide, write, make it trusted; the decisions are pure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
HOLD_SECONDS = 120.0
Serves = Callable[[bytes], Awaitable[bool]]
"""Tells whether the webhook shows a certificate that these CAs (PEM) vouch for."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Rules:
    """What is wanted, and how long in seconds every API server may take to read a new caBundle."""

    plan: Plan
    settle_seconds: float
    randomness: Randomness = SYSTEM


@dataclass(frozen=True)
class Situation:
    """What a round ended with. `held`: new caBundles wait until the webhook serves what they would trust."""

    bundle: Bundle
    trusts: tuple[Trust, ...]
    decision: Decision
    held: bool = False


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
        serves: Serves | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.last_ended = clock.monotonic()
        self._store = store
        self._configurations = configurations
        self._rules = rules
        self._clock = clock
        self._may_write = may_write
        self._serves = serves
        self._sleep = sleep
        # Which CA was seen to be trusted everywhere, and since when.
        self._seen: tuple[str, float] | None = None
        self._held_since: float | None = None

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
            bundle = await self._write(bundle, decision, trusts, now)
        held = await self._holds(bundle, trusts, now)
        if not held and _differ(trusts, bundle):
            await self._trust(bundle)
            # What was written counts only when it has been read back.
            trusts = await self._configurations.read()
        self._look(bundle, trusts)
        return Situation(bundle, trusts, decision, held)

    async def _write(
        self, bundle: Bundle, decision: Decision, trusts: tuple[Trust, ...], now: datetime
    ) -> Bundle:
        """Writes a step. A new CA is trusted before a leaf of it is served, even after a loss."""
        if not self._may_write():
            return bundle
        seen = (one for trust in trusts for one in trust.authorities)
        advanced = advance(bundle, decision, self._rules.plan, now, seen, self._rules.randomness)
        if decision.step is Step.RENEW_LEAF and not await self._holds(advanced, trusts, now):
            await self._trust(advanced)
        await self._store.save(advanced)
        metrics.STEPS.labels(decision.step, str(decision.urgent).lower()).inc()
        say = log.warning if decision.urgent else log.info
        say("certificates changed", step=decision.step, reason=decision.reason, urgent=decision.urgent)
        return advanced

    async def _trust(self, bundle: Bundle) -> None:
        """Writes the CAs into every caBundle that has others."""
        if bundle.signer is not None and self._may_write():
            changed = await self._configurations.write(bundle.authorities_pem)
            if changed:
                log.info("caBundles written", webhooks=changed, authorities=len(bundle.authorities))

    async def _holds(self, bundle: Bundle, trusts: tuple[Trust, ...], now: datetime) -> bool:
        """Whether to leave caBundles as they are for now: all that they trust has ended.

        Then nobody can connect anew, but connections that are open go on. A new caBundle would end them, so
        the webhook must serve the new certificate first, or have had long enough to do so.
        """
        known = [one for trust in trusts for one in trust.authorities]
        if self._serves is None or not known or any(one.valid(now) for one in known):
            self._held_since = None
            return False
        if bundle.leaf is not None and await self._serves(bundle.authorities_pem):
            return False
        moment = self._clock.monotonic()
        self._held_since = moment if self._held_since is None else self._held_since
        return moment - self._held_since < HOLD_SECONDS

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


def _differ(trusts: tuple[Trust, ...], bundle: Bundle) -> bool:
    """Whether a webhook has other CAs than it should; without a signer nobody knows which."""
    return bundle.signer is not None and any(trust.pem != bundle.authorities_pem for trust in trusts)
