"""One pass over the certificates for a person or a script: ensure them, or look; decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import structlog

from certs.configurations import Configurations
from certs.inspection import Inspection, inspect
from certs.keeper import Keeper
from certs.outcome import Outcome, View, outcome
from certs.service import LEASE, make_keeper
from certs.settings import CertsSettings
from certs.store import SecretStore
from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.lease import Elector

PAUSE_SECONDS = 1.0
PASSING = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
"""Refusals after which the same may go through; so may it after every answer of 500 or more."""

T = TypeVar("T")
log = structlog.get_logger(__name__)


async def ensure_once(
    client: KubePort,
    settings: CertsSettings,
    clock: Clock,
    identity: str,
    stop: asyncio.Event,
    limit_seconds: float,
) -> Outcome:
    """Ends when certificates and caBundles are as they should be, whoever made them so; gives what was done.

    It writes only as the holder of the Lease: where `certs watch` runs already, it waits for that one. What
    may pass is tried again: no answer, somebody else's write at the same moment, a server in trouble.

    Raises:
        TimeoutError: they are not, after `limit_seconds` or at a signal; with the last trouble.
        ApiError: the API server refused what it will refuse again.
    """
    troubles: list[str] = []
    elector = Elector(client, settings.namespace, LEASE, identity, clock=clock)
    keeper = make_keeper(client, settings, clock, elector.is_leader)
    campaign = asyncio.create_task(elector.run(_forever), name="lease")
    work = asyncio.create_task(_work(client, settings, keeper, troubles), name="ensure")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({work, stopped}, timeout=limit_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            msg = f"the certificates were not in order within {limit_seconds:g} s"
            said = "stopped before the certificates were in order" if stop.is_set() else msg
            raise TimeoutError(": ".join([said, *troubles[-1:]]))
        return work.result()
    finally:
        for task in (work, stopped, campaign):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(work, stopped, campaign, return_exceptions=True)


async def _work(client: KubePort, settings: CertsSettings, keeper: Keeper, troubles: list[str]) -> Outcome:
    before = await persist(lambda: _view(client, settings), troubles)
    after = await persist(lambda: keeper.until_kept(PAUSE_SECONDS), troubles)
    return outcome(before, View(after.bundle, after.trusts))


async def persist(work: Callable[[], Awaitable[T]], troubles: list[str]) -> T:
    """Does it until it succeeds, and notes troubles; raises ApiError for what will not pass."""
    while True:
        try:
            return await work()
        except (ApiError, ApiUnreachable) as error:
            if isinstance(error, ApiError) and error.status not in PASSING and error.status < 500:
                raise
            if [str(error)] != troubles[-1:]:
                log.warning("round failed", error=str(error))
            troubles.append(str(error))
        await asyncio.sleep(PAUSE_SECONDS)


async def look_once(client: KubePort, settings: CertsSettings, clock: Clock) -> Inspection:
    """Reads everything and writes nothing; raises ApiError or ApiUnreachable."""
    seen = await _view(client, settings)
    return inspect(seen.bundle, seen.trusts, settings.plan, clock.now())


async def _view(client: KubePort, settings: CertsSettings) -> View:
    store = SecretStore(client, settings.namespace, settings.authority_secret, settings.serving_secret)
    bundle = await store.load()
    return View(bundle, await Configurations(client, settings.configurations).read())


async def _forever() -> None:
    await asyncio.Event().wait()
