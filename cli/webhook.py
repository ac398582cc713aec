"""`gpu-tenure webhook`: composes the admission webhook and runs it; decides nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.running import run_component
from cli.setting_flags import FILE, give_flags
from webhook.settings import ENV_PREFIX, WebhookSettings

if TYPE_CHECKING:
    from webhook.tls import ServingCertificate


def webhook(**given: object) -> None:
    """Serve admission reviews: deadlines and idle terms for GPU pods when they are created.

    Each option may also be a variable of the environment, such as `GPU_TENURE_WEBHOOK_PORT`, or a key of the
    settings file, such as `port`. A flag wins over a variable, and that over the file.
    """
    from runtime.log import configure
    from runtime.settings import load

    file = given.pop(FILE)
    settings = load(WebhookSettings, given, file if isinstance(file, Path) else None, ENV_PREFIX)
    configure(settings.log_format, settings.log_level, fields={"component": "webhook"})
    raise typer.Exit(run_component("webhook", lambda stop: run(settings, stop)))


async def run(settings: WebhookSettings, stop: asyncio.Event) -> int:
    """Runs caches, server and ops server until `stop`; returns the exit code."""
    from functools import partial

    from prometheus_client import REGISTRY

    from policy.profile import Profile
    from runtime.catalog import Catalog
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient
    from runtime.lifecycle import run_together
    from runtime.ops import OpsServer
    from runtime.scrapers import guard_of
    from webhook.app import Admission, Webhook, keep_certificate
    from webhook.metrics import WebhookMetrics
    from webhook.quota_metrics import QuotaMetrics
    from webhook.quota_stage import build_quota_stage
    from webhook.rights import Rights
    from webhook.surroundings import Surroundings

    clock = SystemClock()
    certificate = _certificate(settings)
    metrics = WebhookMetrics(REGISTRY)
    if certificate is not None:
        metrics.serves(partial(getattr, certificate, "not_after"))
    async with await KubeClient.connect(settings.kubeconfig, settings.context) as client:
        catalog = Catalog(client, clock=clock)
        rights = Rights(client, clock, settings.rights(), metrics.right_checked)
        wait_seconds = settings.namespace_wait_milliseconds / 1000
        around = Surroundings(client, clock=clock, table=settings.admission().table)
        admission = Admission(catalog, settings.admission(), metrics, clock, wait_seconds, rights, around)
        background = {"catalog": catalog.run(), "surroundings": around.run()}
        process = Webhook(admission, settings.limits(), metrics, settings.clients())
        ready = {
            "catalog": catalog.not_ready,
            "surroundings": around.not_ready,
            "server": process.not_ready,
        }
        if settings.quotas:
            table, measure = settings.admission().table, QuotaMetrics(REGISTRY)
            book, stage = build_quota_stage(
                client,
                clock,
                lambda name: around.quotas(name).rooms,
                table.weight_of,
                measure,
                settings.quota_settle,
            )
            admission.keep_quotas(stage, partial(book.rooms, weigh=table.weight_of))
            enforced = settings.profile is Profile.ENFORCE
            ready["quotas"] = book.too_silent if enforced else book.not_ready
            background["quotas"] = book.run()
        if certificate is not None:
            background["certificate"] = keep_certificate(certificate)
        guard = guard_of(client, clock, protect=settings.protect_metrics)
        async with OpsServer(settings.ops_host, settings.ops_port, ready=ready, guard=guard):
            serving = process.serve(settings.host, settings.port, certificate, stop, settings.drain)
            await run_together(stop, {"server": serving}, background, grace_seconds=settings.drain + 10)
    return 0


def _certificate(settings: WebhookSettings) -> ServingCertificate | None:
    """Loads what is served with; None without TLS. Raises InvalidError if it cannot be used."""
    from policy.errors import FieldError, InvalidError
    from webhook.tls import ServingCertificate

    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return ServingCertificate(settings.tls_cert, settings.tls_key, settings.client_ca)
    except (OSError, ValueError) as error:
        pair = f"{settings.tls_cert} and {settings.tls_key}"
        msg = f"{pair} cannot be used: {getattr(error, 'strerror', None) or error}"
        raise InvalidError([FieldError("--tls-cert, --tls-key", msg)]) from error


give_flags(webhook, WebhookSettings)
