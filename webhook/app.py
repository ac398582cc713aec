"""Puts the webhook together: caches, decisions, metrics, server; decides nothing itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from policy.objects import Namespace
from policy.selection import PolicySet
from runtime.clock import Clock, Sleep
from webhook.admission import mutate
from webhook.answers import Denied, encode_answer
from webhook.decision import OUTCOMES, Decision, Outcome
from webhook.metrics import WebhookMetrics
from webhook.review import Request, read_request
from webhook.scene import AdmissionSettings, World
from webhook.server import Limits, Reviewer, ReviewServer
from webhook.stages import Stage
from webhook.subject import Memory
from webhook.tls import ServingCertificate
from webhook.validation import terms_stage, validate

MUTATE, VALIDATE = "/mutate", "/validate"
RELOAD_SECONDS = 10.0
STOP_SECONDS = 5.0

log = structlog.get_logger(__name__)


class Known(Protocol):
    """What the webhook asks of the caches; runtime.catalog.Catalog has it."""

    @property
    def policies(self) -> PolicySet:
        """All policies."""
        ...

    @property
    def synced(self) -> bool:
        """Whether policies and namespaces have been read."""
        ...

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, None if it is not known."""
        ...

    async def wait_namespace(self, name: str, timeout: float) -> Namespace | None:  # noqa: ASYNC109 - see runtime
        """A namespace, waiting at most `timeout` seconds for it."""
        ...


Decide = Callable[[Request, World], Awaitable[Decision]]


class Admission:
    """Answers reviews from what the caches hold; no call of the API leaves from here.

    `scoped_quota` tells of a namespace whether a ResourceQuota of it counts GPUs by scope.
    """

    def __init__(
        self,
        known: Known,
        settings: AdmissionSettings,
        metrics: WebhookMetrics,
        clock: Clock,
        namespace_wait_seconds: float,
        scoped_quota: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._scoped_quota = scoped_quota
        self._known = known
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._wait_seconds = namespace_wait_seconds
        self._memory = Memory()
        # Rights, images and quota follow here, in this order.
        self._stages: Sequence[Stage] = (terms_stage(self._memory),)

    def routes(self) -> dict[str, Reviewer]:
        """The paths that the API server is told of."""
        return {
            MUTATE: self._reviewer(MUTATE, self._mutate),
            VALIDATE: self._reviewer(VALIDATE, self._validate),
        }

    async def _mutate(self, request: Request, world: World) -> Decision:
        """Decides what a new object gets."""
        return mutate(request, world, self._settings, self._memory)

    async def _validate(self, request: Request, world: World) -> Decision:
        """Decides whether a new object may be stored."""
        return await validate(request, world, self._settings, self._memory, self._stages)

    def _reviewer(self, path: str, decide: Decide) -> Reviewer:
        """Makes the function that answers one path."""

        async def review(body: bytes) -> bytes:
            begun = self._clock.monotonic()
            request = read_request(body)
            decision = await decide(request, self._world(request.namespace))
            if decision.outcome is Outcome.NAMESPACE_UNKNOWN:
                # A namespace may be newer than the watch: worth a moment, but never more than that.
                await self._known.wait_namespace(request.namespace, self._wait_seconds)
                decision = await decide(request, self._world(request.namespace))
            seconds = self._clock.monotonic() - begun
            self._metrics.reviewed(path, decision, dry_run=bool(request.dry_run), seconds=seconds)
            _tell(path, request, decision)
            return encode_answer(request.uid, decision.answer)

        return review

    def _world(self, namespace: str) -> World:
        """What the caches hold now; before they are complete no namespace counts as known."""
        known = self._known
        found = known.namespace(namespace) if known.synced else None
        return World(known.policies, found, self._scoped_quota(namespace))


class Webhook:
    """The server with its certificate, from the first request to the end of the drain."""

    def __init__(self, admission: Admission, limits: Limits, metrics: WebhookMetrics) -> None:
        self.server = ReviewServer(admission.routes(), limits, metrics)
        self._listening = False

    def not_ready(self) -> str | None:
        """A readiness check: None while reviews should come here."""
        if self.server.draining:
            return "draining: reviews should go to another replica"
        return None if self._listening else "not listening yet"

    async def serve(
        self,
        host: str,
        port: int,
        certificate: ServingCertificate | None,
        stop: asyncio.Event,
        drain_seconds: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Serves until `stop`, then goes on for a while, each answer closing its connection.

        Raises:
            OSError: the address cannot be listened on.
        """
        bound = await self.server.start(host, port, certificate.context if certificate else None)
        self._listening = True
        log.info("webhook listening", host=host, port=bound, tls=certificate is not None)
        await stop.wait()
        self.server.begin_drain()
        log.info("webhook draining", seconds=drain_seconds)
        await sleep(drain_seconds)
        await self.server.stop(STOP_SECONDS)
        log.info("webhook stopped")


async def keep_certificate(certificate: ServingCertificate, sleep: Sleep = asyncio.sleep) -> None:
    """Looks at the files of the certificate for ever."""
    while True:
        await sleep(RELOAD_SECONDS)
        certificate.reload_if_changed()


def _tell(path: str, request: Request, decision: Decision) -> None:
    """Logs what an administrator should see: refusals, and objects that were let pass without their terms."""
    if decision.outcome in (Outcome.PATCH_UNFIT, Outcome.NAMESPACE_UNKNOWN):
        log.warning(
            "object admitted without terms",
            path=path,
            kind=request.kind.kind,
            namespace=request.namespace,
            request_uid=request.uid,
            outcome=decision.outcome.value,
            reason=decision.reasons[-1] if decision.reasons else OUTCOMES[decision.outcome],
        )
    elif isinstance(decision.answer, Denied):
        log.info(
            "object refused",
            path=path,
            kind=request.kind.kind,
            namespace=request.namespace,
            request_uid=request.uid,
            reason=decision.answer.message,
        )
