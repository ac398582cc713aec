"""Every setting of the certificates, documented field by field; does not know where values come from."""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from certs.configurations import MUTATING, VALIDATING
from certs.probe import target_of
from certs.rotation import Lives, Plan
from policy.keys import OWN_NAMESPACE
from runtime.component import (
    Context,
    Identity,
    Kubeconfig,
    LogFormat,
    LogLevel,
    OpsHost,
    Port,
    ProtectMetrics,
)
from runtime.settings import Names, Seconds, Settings

ENV_PREFIX = "GPU_TENURE_CERTS_"
Life = Annotated[Seconds, Field(ge=10)]
Wait = Annotated[Seconds, Field(ge=0)]
DAY = 86400
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}$)(\*\.)?({_LABEL}\.)*(?![0-9]+$){_LABEL}")
"""A name that a certificate may be for; one that ends in a number would be an address, and is none."""


class CertsSettings(Settings):
    """What an administrator may choose."""

    namespace: str = Field(
        OWN_NAMESPACE,
        description="Namespace of the Secrets, the Service and the Lease",
        examples=["gpu-tenure-system"],
    )
    service: str = Field(
        "gpu-tenure-webhook", description="Service that the API server dials", examples=["gpu-tenure-webhook"]
    )
    names: Names = Field(
        (),
        description="Further names and IP addresses of the certificate",
        examples=["webhook.example.com,10.0.0.7"],
    )
    authority_secret: str = Field(
        "gpu-tenure-webhook-ca",
        description="Secret of the CA and its key",
        examples=["gpu-tenure-webhook-ca"],
    )
    serving_secret: str = Field(
        "gpu-tenure-webhook-tls",
        description="Secret that the webhook mounts",
        examples=["gpu-tenure-webhook-tls"],
    )
    mutating: Names = Field(
        ("zz-gpu-tenure",),
        description="MutatingWebhookConfigurations to write caBundles in",
        examples=["zz-gpu-tenure"],
    )
    validating: Names = Field(
        ("gpu-tenure",),
        description="ValidatingWebhookConfigurations to write caBundles in",
        examples=["gpu-tenure"],
    )
    ca_life: Life = Field(730 * DAY, description="Life of a CA", examples=["730d"])
    ca_renew: Life = Field(
        180 * DAY, description="Rest of a CA's life when the next one is added", examples=["180d"]
    )
    leaf_life: Life = Field(90 * DAY, description="Life of a serving certificate", examples=["90d"])
    leaf_renew: Life = Field(
        30 * DAY, description="Rest of a serving certificate's life when it is renewed", examples=["30d"]
    )
    settle: Wait = Field(
        30, description="How long every API server may take to read a new caBundle", examples=["30s"]
    )
    interval: Annotated[Seconds, Field(ge=1)] = Field(
        30, description="Time between two looks at Secrets and caBundles", examples=["30s"]
    )
    probe: str = Field(
        "",
        description="HOST:PORT that is dialled as the API server would; empty is the Service, none is off",
        examples=["127.0.0.1:8443"],
    )
    canary_namespace: str = Field(
        "",
        description="Namespace in which a GPU pod is tried every minute, as a dry run; empty is off",
        examples=["gpu-tenure-canary"],
    )
    canary_resource: str = Field(
        "nvidia.com/gpu", description="What that pod asks for", examples=["amd.com/gpu"]
    )
    kubeconfig: Kubeconfig = None
    context: Context = None
    ops_host: OpsHost = "0.0.0.0"
    ops_port: Port = 9443
    protect_metrics: ProtectMetrics = False
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"
    identity: Identity = None

    @field_validator("names")
    @classmethod
    def _names_fit_a_certificate(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Writes names as certificates do, so that they compare; raises ValueError for what is none."""
        return tuple(_certifiable(name) for name in value)

    @field_validator("probe")
    @classmethod
    def _probe_is_an_address(cls, value: str) -> str:
        """Refuses what cannot be dialled; raises ValueError."""
        target_of(value, ("localhost",))
        return value

    @model_validator(mode="after")
    def _lives_fit(self) -> Self:
        """Refuses lives with which a rotation could not end in time."""
        if self.leaf_renew >= self.leaf_life:
            msg = f"leaf_renew must be below leaf_life ({self.leaf_life} s), such as a third of it"
            raise ValueError(msg)
        if self.ca_renew < self.leaf_life:
            msg = f"ca_renew must not be below leaf_life ({self.leaf_life} s): a leaf may not outlive its CA"
            raise ValueError(msg)
        if self.ca_renew >= self.ca_life:
            msg = f"ca_renew must be below ca_life ({self.ca_life} s), such as a quarter of it"
            raise ValueError(msg)
        return self

    @property
    def plan(self) -> Plan:
        """Names and lives, as decisions take them."""
        host = f"{self.service}.{self.namespace}.svc"
        lives = (self.ca_life, self.ca_renew, self.leaf_life, self.leaf_renew)
        names = (host, f"{host}.cluster.local", *self.names)
        return Plan(names, Lives(*(timedelta(seconds=life) for life in lives)))

    @property
    def configurations(self) -> tuple[tuple[str, str], ...]:
        """Resources and names of the configurations that dial the Service."""
        mutating = tuple((MUTATING, name) for name in self.mutating)
        return (*mutating, *((VALIDATING, name) for name in self.validating))


def _certifiable(name: str) -> str:
    if _HOST.fullmatch(name.lower()):
        return name.lower()
    try:
        if "%" not in name:
            return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    msg = f"must be host names and IP addresses such as webhook.example.com,10.0.0.7, not {name!r}"
    raise ValueError(msg)
