"""One pass over the certificates for a person or a script: ensure them, or look; decides nothing."""

from __future__ import annotations

import asyncio
import contextlib

from certs.configurations import Configurations
from certs.inspection import Inspection, inspect
from certs.outcome import Outcome, View, outcome
from certs.service import LEASE, make_keeper
from certs.settings import CertsSettings
from certs.store import SecretStore
from runtime.clock import Clock
from runtime.kube import KubePort
from runtime.lease import Elector

PAUSE_SECONDS = 1.0


async def ensure_once(
    client: KubePort,
    settings: CertsSettings,
    clock: Clock,
    identity: str,
    stop: asyncio.Event,
    limit_seconds: float,
) -> Outcome:
    """Ends when certificates and caBundles are as they should be, whoever made them so; gives what was done.

    It writes only as the holder of the Lease: where `certs watch` runs already, it waits for that one.

    Raises:
        TimeoutError: they are not, after `limit_seconds` or at a signal.
        ApiError, ApiUnreachable: the API server refused, or did not answer.
    """
    before = await _view(client, settings)
    elector = Elector(client, settings.namespace, LEASE, identity, clock=clock)
    keeper = make_keeper(client, settings, clock, elector.is_leader)
    campaign = asyncio.create_task(elector.run(_forever), name="lease")
    work = asyncio.create_task(keeper.until_kept(PAUSE_SECONDS), name="ensure")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({work, stopped}, timeout=limit_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            msg = f"the certificates were not in order within {limit_seconds:g} s"
            raise TimeoutError("stopped before the certificates were in order" if stop.is_set() else msg)
        after = work.result()
        return outcome(before, View(after.bundle, after.trusts))
    finally:
        for task in (work, stopped, campaign):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(work, stopped, campaign, return_exceptions=True)


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
