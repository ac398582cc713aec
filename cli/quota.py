"""`gpu-tenure quota`: composes the keeper of the ledgers and runs it; decides nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

from cli.running import identity_of, run_component
from cli.setting_flags import FILE, give_flags
from quota.settings import ENV_PREFIX, QuotaSettings


def quota(**given: object) -> None:
    """Keep the ledgers of GPUQuotas true: count pods, release reservations, report what is over.

    One of several replicas leads.

    Each option may also be a variable of the environment, such as `GPU_TENURE_QUOTA_SETTLE`, or a key of the
    settings file, such as `settle`. A flag wins over a variable, and that over the file.
    """
    from runtime.log import configure
    from runtime.settings import load

    file = given.pop(FILE)
    settings = load(QuotaSettings, given, file if isinstance(file, Path) else None, ENV_PREFIX)
    configure(settings.log_format, settings.log_level, fields={"component": "quota"})
    raise typer.Exit(run_component("quota", lambda stop: run(settings, stop)))


async def run(settings: QuotaSettings, stop: asyncio.Event) -> int:
    """Runs one replica until `stop`; returns the exit code."""
    from quota.service import run_service
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient

    identity = identity_of(settings.identity)
    async with await KubeClient.connect(settings.kubeconfig, settings.context) as client:
        await run_service(client, settings, SystemClock(), identity, stop)
    return 0


give_flags(quota, QuotaSettings)
