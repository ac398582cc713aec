"""Every setting of the quota component, documented field by field; does not know where values come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from policy.keys import DEFAULT_EXCLUDED_NAMESPACES, OWN_NAMESPACE
from runtime.gpu_resources import DESCRIPTION, EXAMPLE, ResourceRows
from runtime.settings import Names, Seconds, Settings

ENV_PREFIX = "GPU_TENURE_QUOTA_"
Span = Annotated[Seconds, Field(ge=1)]
Wait = Annotated[Seconds, Field(ge=0)]


class QuotaSettings(Settings):
    """What an administrator may choose."""

    reservation: Span = Field(
        75,
        description="When a reservation without a pod expires; above the API server's request time-out",
        examples=["75s"],
    )
    settle: Wait = Field(
        6,
        description="How long a quota that is new for a namespace only counts, until every webhook knows it",
        examples=["6s"],
    )
    kubeconfig: Path | None = Field(
        None, description="Kubeconfig; otherwise KUBECONFIG or the pod's own account"
    )
    context: str | None = Field(None, description="Context of the kubeconfig", examples=["production"])
    ops_host: str = Field(
        "0.0.0.0", description="Address of /healthz, /readyz and /metrics", examples=["127.0.0.1"]
    )
    ops_port: int = Field(
        9443, ge=0, le=65535, description="Port of the same; 0 takes a free one", examples=["9443"]
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto is readable on a terminal and JSON elsewhere", examples=["json"]
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least level that is logged", examples=["debug"]
    )
    lease_namespace: str = Field(
        OWN_NAMESPACE, description="Namespace of the Lease", examples=["gpu-tenure-system"]
    )
    identity: str | None = Field(None, description="Name in the Lease; otherwise host name and a random part")
    excluded_namespaces: Names = Field(
        DEFAULT_EXCLUDED_NAMESPACES, description="Namespaces left alone", examples=["kube-system,monitoring"]
    )
    gpu_resources: ResourceRows = Field((), description=DESCRIPTION, examples=[EXAMPLE])
