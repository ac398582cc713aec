"""Every setting of the webhook, documented field by field; does not know where values come from."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from policy import defaults
from policy.classes import DEFAULT_TRUSTED_CONTROLLERS
from policy.errors import FieldError, InvalidError
from policy.keys import DEFAULT_EXCLUDED_NAMESPACES
from policy.profile import Profile
from policy.requester import parse_source
from runtime.component import (
    Context,
    ExcludedNamespaces,
    InstalledProfile,
    Kubeconfig,
    LogFormat,
    LogLevel,
    OpsHost,
    Port,
    ProtectMetrics,
    TrustedControllers,
)
from runtime.gpu_resources import DESCRIPTION, EXAMPLE, ResourceRows, table_of
from runtime.settings import Names, Seconds, Settings
from webhook.clients import Clients
from webhook.quotas import SETTLE_SECONDS
from webhook.reception import Limits
from webhook.rights import RightsLimits
from webhook.scene import AdmissionSettings

ENV_PREFIX = "GPU_TENURE_WEBHOOK_"
Wait = Annotated[Seconds, Field(ge=0)]
_LIMITS = Limits()
_RIGHTS = RightsLimits()


def _are_sources(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses a source of another form."""
    for text in texts:
        parse_source(text)
    return texts


class WebhookSettings(Settings):
    """What an administrator may choose."""

    profile: InstalledProfile = Profile.OBSERVE
    tls_cert: Path | None = Field(
        None,
        description="Serving certificate with its chain, PEM; read again when it changes",
        examples=["/tls/tls.crt"],
    )
    tls_key: Path | None = Field(
        None, description="Private key of the certificate, PEM", examples=["/tls/tls.key"]
    )
    client_ca: Path | None = Field(
        None,
        description="CAs whose client certificates may send reviews, PEM; otherwise anybody may",
        examples=["/client-ca/ca.crt"],
    )
    client_names: Names = Field(
        (),
        description="Names in those certificates that may; otherwise every one of them",
        examples=["kube-apiserver"],
    )
    host: str = Field("0.0.0.0", description="Address that reviews come to", examples=["127.0.0.1"])
    port: Port = Field(8443, examples=["8443"])
    ops_host: OpsHost = "0.0.0.0"
    ops_port: Port = 9443
    protect_metrics: ProtectMetrics = False
    kubeconfig: Kubeconfig = None
    context: Context = None
    excluded_namespaces: ExcludedNamespaces = DEFAULT_EXCLUDED_NAMESPACES
    trusted_controllers: TrustedControllers = DEFAULT_TRUSTED_CONTROLLERS
    gpu_resources: ResourceRows = Field((), description=DESCRIPTION, examples=[EXAMPLE])
    requester_sources: Annotated[Names, AfterValidator(_are_sources)] = Field(
        (),
        description="Creators that act for others, and where they say for whom",
        examples=["system:serviceaccount:hub:hub=annotation:hub.jupyter.org/username"],
    )
    quotas: bool = Field(
        False, description="Keep to GPUQuotas; their ledgers are counted by the component quota"
    )
    quota_settle: Annotated[Seconds, Field(ge=2)] = Field(
        round(SETTLE_SECONDS),
        description="The keeper's --settle: what is known of quotas may be half as old",
        examples=["6s"],
    )
    namespace_wait_milliseconds: int = Field(
        round(defaults.NAMESPACE_WAIT_SECONDS * 1000),
        ge=0,
        le=1000,
        description="How long a review waits for the watch to bring a new namespace",
        examples=["250"],
    )
    rights_cache: Annotated[Seconds, Field(ge=0, le=300)] = Field(
        round(_RIGHTS.allowed_seconds),
        description="How long a right to use a policy counts after it was seen",
        examples=["10s"],
    )
    rights_timeout_milliseconds: int = Field(
        round(_RIGHTS.timeout_seconds * 1000),
        ge=100,
        le=10_000,
        description="How long to wait for the API server to tell a right; less than its own time-out",
        examples=["1000"],
    )
    body_limit_bytes: int = Field(
        _LIMITS.body_bytes, ge=1024, description="The largest review", examples=["7340032"]
    )
    body_timeout: Annotated[Seconds, Field(ge=1)] = Field(
        round(_LIMITS.body_seconds), description="How long a body may take to arrive", examples=["5s"]
    )
    keep_alive: Annotated[Seconds, Field(ge=120)] = Field(
        round(_LIMITS.keep_alive_seconds),
        description="How long an idle connection stays; API servers keep theirs for 90s",
        examples=["150s"],
    )
    in_flight: int = Field(
        _LIMITS.in_flight, ge=1, description="Reviews at once; more are told to come again", examples=["256"]
    )
    drain: Wait = Field(
        8, description="How long to go on serving after SIGTERM, until nobody sends any more", examples=["8s"]
    )
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"

    @model_validator(mode="after")
    def _has_a_certificate(self) -> Self:
        """The API server speaks TLS only; without it nothing but a test on this machine may listen."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidError([FieldError("--tls-cert, --tls-key", "must be given together")])
        if self.client_ca is not None and self.tls_cert is None:
            raise InvalidError([FieldError("--client-ca", "needs --tls-cert and --tls-key")])
        if self.client_names and self.client_ca is None:
            raise InvalidError([FieldError("--client-names", "needs --client-ca")])
        if self.tls_cert is None and not _is_loopback(self.host):
            msg = "are required unless --host is a loopback address: the API server speaks TLS only"
            raise InvalidError([FieldError("--tls-cert, --tls-key", msg)])
        return self

    def admission(self) -> AdmissionSettings:
        """The part that decisions depend on.

        Only what is listed is left alone: where we are installed elsewhere, anybody may make a namespace that
        is called like ours by default.
        """
        return AdmissionSettings(
            self.profile,
            frozenset(self.excluded_namespaces),
            self.trusted_controllers,
            table=table_of(self.gpu_resources),
            requester_sources=tuple(map(parse_source, self.requester_sources)),
        )

    def rights(self) -> RightsLimits:
        """The part that asking for rights keeps to; a refusal is never remembered longer than a right."""
        return RightsLimits(
            allowed_seconds=self.rights_cache,
            denied_seconds=min(self.rights_cache, _RIGHTS.denied_seconds),
            timeout_seconds=self.rights_timeout_milliseconds / 1000,
        )

    def clients(self) -> Clients | None:
        """Who may send reviews; None is anybody."""
        return Clients(self.client_names) if self.client_ca is not None else None

    def limits(self) -> Limits:
        """The part that the server keeps to."""
        return Limits(
            body_bytes=self.body_limit_bytes,
            body_seconds=self.body_timeout,
            keep_alive_seconds=self.keep_alive,
            in_flight=self.in_flight,
        )


def _is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
