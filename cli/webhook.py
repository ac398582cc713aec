"""`gpu-tenure webhook`: composes the admission webhook and runs it; decides nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from webhook.settings import WebhookSettings


def webhook(  # noqa: PLR0913, PLR0917 - one argument per flag
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", "--config", help="File with settings: YAML, TOML or JSON.", exists=True),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="observe (default), warn or enforce.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Serving certificate with its chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the certificate, PEM.")] = None,
    host: Annotated[str | None, typer.Option(help="Address that reviews come to.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the same (8443); 0 takes a free one.")] = None,
    ops_host: Annotated[str | None, typer.Option(help="Address of /healthz, /readyz, /metrics.")] = None,
    ops_port: Annotated[int | None, typer.Option(help="Port of the same (9443).")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig; else the pod's account.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    excluded_namespaces: Annotated[
        str | None, typer.Option(help="Namespaces left alone, separated by commas.")
    ] = None,
    trusted_controllers: Annotated[
        str | None, typer.Option(help="Accounts whose controller references count, separated by commas.")
    ] = None,
    drain: Annotated[str | None, typer.Option(help="How long to go on serving after SIGTERM (8s).")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto (default), json or console.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info (default), warning or error.")] = None,
) -> None:
    """Serve admission reviews: deadlines and idle terms for GPU pods when they are created.

    Unset flags come from the environment (GPU_TENURE_WEBHOOK_…) and the file, which know further settings.
    """
    flags = {name: value for name, value in locals().items() if name != "settings_file"}
    from policy.errors import FieldError, InvalidError
    from runtime.kubeconfig import KubeConfigError
    from runtime.lifecycle import PartFailed, run_until_signal
    from runtime.log import configure
    from runtime.settings import load
    from webhook.settings import ENV_PREFIX, WebhookSettings

    settings = load(WebhookSettings, flags, settings_file, ENV_PREFIX)
    configure(settings.log_format, settings.log_level, fields={"component": "webhook"})
    try:
        raise typer.Exit(run_until_signal(lambda stop: run(settings, stop)))
    except KubeConfigError as error:
        raise InvalidError([FieldError("--kubeconfig", str(error))]) from error
    except (OSError, PartFailed) as error:
        raise InvalidError([FieldError("webhook", str(error))]) from error


async def run(settings: WebhookSettings, stop: asyncio.Event) -> int:
    """Runs caches, server and ops server until `stop`; returns the exit code."""
    from prometheus_client import REGISTRY

    from policy.errors import FieldError, InvalidError
    from runtime.catalog import Catalog
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient
    from runtime.lifecycle import run_together
    from runtime.ops import OpsServer
    from webhook.app import Admission, Webhook, keep_certificate
    from webhook.metrics import WebhookMetrics
    from webhook.tls import ServingCertificate

    clock = SystemClock()
    certificate = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        try:
            certificate = ServingCertificate(settings.tls_cert, settings.tls_key)
        except OSError as error:
            pair = f"{settings.tls_cert} and {settings.tls_key}"
            msg = f"{pair} cannot be used: {error.strerror or error}"
            raise InvalidError([FieldError("--tls-cert, --tls-key", msg)]) from error
    metrics = WebhookMetrics(REGISTRY)
    async with await KubeClient.connect(settings.kubeconfig, settings.context) as client:
        catalog = Catalog(client, clock=clock)
        admission = Admission(
            catalog, settings.admission(), metrics, clock, settings.namespace_wait_milliseconds / 1000
        )
        process = Webhook(admission, settings.limits(), metrics)
        ready = {"catalog": catalog.not_ready, "server": process.not_ready}
        background = {"catalog": catalog.run()}
        if certificate is not None:
            background["certificate"] = keep_certificate(certificate)
        async with OpsServer(settings.ops_host, settings.ops_port, ready=ready):
            serving = process.serve(settings.host, settings.port, certificate, stop, settings.drain)
            await run_together(stop, {"server": serving}, background, grace_seconds=settings.drain + 10)
    return 0
