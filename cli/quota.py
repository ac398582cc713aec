"""`gpu-tenure quota`: composes the keeper of the ledgers and runs it; decides nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from quota.settings import QuotaSettings


def quota(  # noqa: PLR0913, PLR0917 - one argument per flag
    config: Annotated[Path | None, typer.Option(help="File with settings: YAML, TOML or JSON.")] = None,
    reservation: Annotated[
        str | None,
        typer.Option(help="When a reservation without a pod expires (75s); above the API server's time-out."),
    ] = None,
    settle: Annotated[
        str | None, typer.Option(help="How long a quota that is new for a namespace only counts (6s).")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig; else the pod's account.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    ops_host: Annotated[str | None, typer.Option(help="Address of /healthz, /readyz, /metrics.")] = None,
    ops_port: Annotated[int | None, typer.Option(help="Port of the same (9443).")] = None,
    lease_namespace: Annotated[str | None, typer.Option(help="Namespace of the Lease.")] = None,
    excluded_namespaces: Annotated[
        str | None, typer.Option(help="Namespaces left alone, separated by commas.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="auto (default), json or console.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info (default), warning or error.")] = None,
) -> None:
    """Keep the ledgers of GPUQuotas true: count pods, release reservations, report what is over.

    One of several replicas leads. Unset flags come from the environment (GPU_TENURE_QUOTA_…) and the file,
    which know further settings.
    """
    flags = {name: value for name, value in locals().items() if name != "config"}
    from policy.errors import FieldError, InvalidError
    from quota.settings import ENV_PREFIX, QuotaSettings
    from runtime.kubeconfig import KubeConfigError
    from runtime.lifecycle import PartFailed, run_until_signal
    from runtime.log import configure
    from runtime.settings import load

    settings = load(QuotaSettings, flags, config, ENV_PREFIX)
    configure(settings.log_format, settings.log_level, fields={"component": "quota"})
    try:
        raise typer.Exit(run_until_signal(lambda stop: run(settings, stop)))
    except (OSError, KubeConfigError, PartFailed) as error:
        raise InvalidError([FieldError("quota", str(error))]) from error


async def run(settings: QuotaSettings, stop: asyncio.Event) -> int:
    """Runs one replica until `stop`; returns the exit code."""
    import secrets
    import socket

    from quota.service import run_service
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient

    identity = settings.identity or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    async with await KubeClient.connect(settings.kubeconfig, settings.context) as client:
        await run_service(client, settings, SystemClock(), identity, stop)
    return 0
