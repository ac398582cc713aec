"""Every setting of the quota component, documented field by field; does not know where values come from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policy.keys import DEFAULT_EXCLUDED_NAMESPACES, OWN_NAMESPACE
from runtime.component import (
    Context,
    ExcludedNamespaces,
    Identity,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    OpsHost,
    Port,
    ProtectMetrics,
)
from runtime.gpu_resources import DESCRIPTION, EXAMPLE, ResourceRows
from runtime.settings import Seconds, Settings

ENV_PREFIX = "GPU_TENURE_QUOTA_"
Span = Annotated[Seconds, Field(ge=1)]
Settle = Annotated[Seconds, Field(ge=2)]


class QuotaSettings(Settings):
    """What an administrator may choose."""

    reservation: Span = Field(
        75,
        description="When a reservation without a pod expires; above the API server's request time-out",
        examples=["75s"],
    )
    settle: Settle = Field(
        6,
        description="How long a quota that is new for a namespace only counts, until every webhook knows it",
        examples=["6s"],
    )
    kubeconfig: Kubeconfig = None
    context: Context = None
    ops_host: OpsHost = "0.0.0.0"
    ops_port: Port = 9443
    protect_metrics: ProtectMetrics = False
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"
    lease_namespace: LeaseNamespace = OWN_NAMESPACE
    identity: Identity = None
    excluded_namespaces: ExcludedNamespaces = DEFAULT_EXCLUDED_NAMESPACES
    gpu_resources: ResourceRows = Field((), description=DESCRIPTION, examples=[EXAMPLE])
