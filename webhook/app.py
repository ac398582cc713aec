"""Puts the webhook together: caches, decisions, metrics, server; decides nothing itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec
import structlog

from policy.profile import Profile
from policy.resourcequota import Room
from runtime.clock import Clock, Sleep
from webhook.admission import mutate
from webhook.answers import Denied, encode_answer, try_again
from webhook.aside import Aside
from webhook.caches import Around, Known, NothingAround
from webhook.clients import Clients
from webhook.decision import OUTCOMES, Decision, Outcome
from webhook.images import images_stage
from webhook.metrics import WebhookMetrics
from webhook.reception import Limits, Reviewer
from webhook.review import POD, Request, read_request
from webhook.rights_stage import RightsPort, rights_stage
from webhook.scene import AdmissionSettings, World
from webhook.server import ReviewServer
from webhook.stages import Stage
from webhook.subject import Memory, claim_templates_of
from webhook.tls import ServingCertificate
from webhook.validation import terms_stage, validate
from webhook.workload_validation import shapes_of, validate_workload

MUTATE, VALIDATE = "/mutate", "/validate"
RELOAD_SECONDS = 2.0
STOP_SECONDS = 5.0
LARGE_BYTES = 128 * 1024
"""A review from this size on may take long to decide, and is decided beside all others."""

log = structlog.get_logger(__name__)


QuotaRooms = Callable[[str, Mapping[str, str] | None], tuple[Room, ...]]
"""What GPUQuotas leave for a namespace, by its name and labels."""

WORTH_WAITING = frozenset({Outcome.NAMESPACE_UNKNOWN, Outcome.CLAIMS_UNRESOLVED})
"""What the caches may know better in a moment."""


class Admission:
    """Answers reviews from what the caches hold; the validating path alone may ask the API server."""

    def __init__(
        self,
        known: Known,
        settings: AdmissionSettings,
        metrics: WebhookMetrics,
        clock: Clock,
        namespace_wait_seconds: float,
        rights: RightsPort,
        around: Around | None = None,
    ) -> None:
        self._known = known
        self._around: Around = around or NothingAround()
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._wait_seconds = namespace_wait_seconds
        self._memory = Memory()
        self._aside = Aside()
        self._rights = rights
        self._quota_rooms: QuotaRooms | None = None
        self._stages: Sequence[Stage] = (
            terms_stage(self._memory),
            rights_stage(rights, settings),
            images_stage,
        )

    def keep_quotas(self, stage: Stage, rooms: QuotaRooms) -> None:
        """Lets in only what fits into its quotas; to be called before anything is served, as the last check.

        `rooms` says what they leave for a namespace, for remarks on workloads.
        """
        self._stages = (*self._stages, stage)
        self._quota_rooms = rooms

    def routes(self) -> dict[str, Reviewer]:
        """The paths that the API server is told of."""
        return {MUTATE: self._review_mutating, VALIDATE: self._review_validating}

    def _review_mutating(self, body: bytes) -> bytes | Awaitable[bytes]:
        """Answers a review of the mutating path: at once, unless the caches may learn more in a moment."""
        begun = self._clock.monotonic()
        request = read_request(body)
        if len(body) >= LARGE_BYTES:
            return self._mutate_later(request, None, begun)
        decision = self._mutate(request)
        if decision.outcome in WORTH_WAITING:
            return self._mutate_later(request, decision, begun)
        return self._answer(MUTATE, request, decision, begun)

    async def _mutate_later(self, request: Request, decision: Decision | None, begun: float) -> bytes:
        """Decides about what is large, and once more about what was decided too early."""
        decision = decision or await self._mutate_aside(request)
        if await self._learns_more(request, decision):
            decision = await self._mutate_aside(request)
        return self._answer(MUTATE, request, decision, begun)

    async def _review_validating(self, body: bytes) -> bytes:
        """Answers a review of the validating path."""
        begun = self._clock.monotonic()
        request = read_request(body)
        large = len(body) >= LARGE_BYTES
        decision = await self._validate(request, large=large)
        if await self._learns_more(request, decision):
            decision = await self._validate(request, large=large)
        if request.kind == POD:
            decision = self._unless_quotas(decision)
        return self._answer(VALIDATE, request, decision, begun)

    def _mutate(self, request: Request) -> Decision:
        """Decides what a new object gets."""
        return mutate(request, self._world(request.namespace), self._settings, self._memory)

    async def _mutate_aside(self, request: Request) -> Decision:
        """The same while others are answered."""
        world = self._world(request.namespace)
        return await self._aside.run(partial(mutate, request, world, self._settings, self._memory))

    async def _validate(self, request: Request, *, large: bool) -> Decision:
        """Decides whether a new object may be stored."""
        world = self._world(request.namespace)
        if request.kind == POD:
            if large:
                # What takes long is remembered by this, and then at hand.
                await self._mutate_aside(request)
            return await validate(request, world, self._settings, self._memory, self._stages)
        looking = partial(shapes_of, request, world, self._settings, self._memory)
        shapes = await self._aside.run(looking) if large else looking()
        return await validate_workload(request, shapes, self._settings, self._rights)

    async def _learns_more(self, request: Request, decision: Decision) -> bool:
        """Waits for what may be newer than the watches: worth a moment, but never more than that."""
        if decision.outcome is Outcome.NAMESPACE_UNKNOWN:
            await self._known.wait_namespace(request.namespace, self._wait_seconds)
            return True
        if decision.outcome is Outcome.CLAIMS_UNRESOLVED:
            names = claim_templates_of(request)
            return await self._around.wait_claims(request.namespace, names, self._wait_seconds)
        return False

    def _answer(self, path: str, request: Request, decision: Decision, begun: float) -> bytes:
        """Counts, logs and encodes a decision."""
        seconds = self._clock.monotonic() - begun
        self._metrics.reviewed(path, decision, dry_run=bool(request.dry_run), seconds=seconds)
        _tell(path, request, decision)
        return encode_answer(request.uid, decision.answer)

    def _unless_quotas(self, decision: Decision) -> Decision:
        """The decision about a pod of an unknown namespace: quotas that may select it cannot be kept."""
        strict = self._quota_rooms is not None and self._settings.profile is Profile.ENFORCE
        if decision.outcome is not Outcome.NAMESPACE_UNKNOWN or not strict:
            return decision
        refusal = try_again("the namespace is not known yet, nor are its quotas")
        return Decision(outcome=Outcome.REFUSED, answer=refusal, reasons=(refusal.message,))

    def _world(self, namespace: str) -> World:
        """What the caches hold now; before they are complete no namespace counts as known."""
        known, around = self._known, self._around
        found = known.namespace(namespace) if known.synced else None
        quotas = around.quotas(namespace)
        if self._quota_rooms is not None and found is not None:
            more = self._quota_rooms(namespace, found.metadata.labels)
            quotas = msgspec.structs.replace(quotas, rooms=(*quotas.rooms, *more))
        return World(known.policies, found, quotas, around.priority_classes, around.claim_template)


class Webhook:
    """The server with its certificate, from the first request to the end of the drain."""

    def __init__(
        self,
        admission: Admission,
        limits: Limits,
        metrics: WebhookMetrics,
        clients: Clients | None = None,
    ) -> None:
        self.server = ReviewServer(admission.routes(), limits, metrics, clients)
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
