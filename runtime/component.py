"""The settings that several components have, each described once; does not know which component has which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from policy.profile import Profile
from runtime.settings import Names

InstalledProfile = Annotated[
    Profile, Field(description="How far the installation goes", examples=["enforce"])
]
Kubeconfig = Annotated[
    Path | None,
    Field(
        description="Kubeconfig; otherwise KUBECONFIG or the pod's own account",
        examples=["/etc/gpu-tenure/kubeconfig"],
    ),
]
Context = Annotated[str | None, Field(description="Context of the kubeconfig", examples=["production"])]
OpsHost = Annotated[
    str, Field(description="Address of /healthz, /readyz and /metrics", examples=["127.0.0.1"])
]
Port = Annotated[
    int, Field(ge=0, le=65535, description="Port of the same; 0 takes a free one", examples=["9443"])
]
"""The port of the address that is named right before."""

ProtectMetrics = Annotated[
    bool,
    Field(description="/metrics only for those whom the API server lets get it; needs two rights of our own"),
]
LogFormat = Annotated[
    Literal["auto", "json", "console"],
    Field(description="auto is readable on a terminal and JSON elsewhere", examples=["json"]),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Field(description="The least level that is logged", examples=["debug"]),
]
LeaseNamespace = Annotated[
    str,
    Field(
        description="Namespace of the Lease, and of the reaper's pause switch", examples=["gpu-tenure-system"]
    ),
]
Identity = Annotated[
    str | None,
    Field(description="Name in the Lease; otherwise host name and a random part", examples=["rack-4"]),
]
ExcludedNamespaces = Annotated[
    Names, Field(description="Namespaces left alone", examples=["kube-system,monitoring"])
]
TrustedControllers = Annotated[
    Names,
    Field(
        description="Accounts whose controller references count",
        examples=["system:serviceaccount:kubeflow:training-operator"],
    ),
]
