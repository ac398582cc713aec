"""What reaches GPUs without asking for them, found in a pod's plain JSON; knows no policy and no cluster.

The chart's guard has the same rules. These are used offline, where no API server evaluates the guard; they
read whatever they are given and never fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

ENVIRONMENT: Final = (
    "AMD_VISIBLE_DEVICES",
    "ASCEND_VISIBLE_DEVICES",
    "AWS_NEURON_VISIBLE_DEVICES",
    "CAMBRICON_VISIBLE_DEVICES",
    "ENFLAME_VISIBLE_DEVICES",
    "HABANA_VISIBLE_DEVICES",
    "METAX_VISIBLE_DEVICES",
    "MTHREADS_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
)
"""Variables by which container runtimes hand out devices; CUDA_VISIBLE_DEVICES only chooses among them."""

NO_DEVICES: Final = ("", "none", "void")
"""Values that hand out none."""

DEVICE_PATHS: Final = (
    "^(dev/(accel|cambricon|davinci|devmm_svm|dri|dxg|gcu|hisi_hdc|iluvatar|kfd|mtgpu|mxcd|mxgpu|neuron"
    "|nvidia|vfio)|(var/)?run/(cdi|nvidia)|etc/cdi|proc/driver/nvidia|proc/[^/]+/(cwd|fd|root|task)"
    "|var/lib/kubelet/device-plugins)"
)
"""Host paths, without the first slash, that lead to GPUs; also by way of another process."""

BROAD_PATHS: Final = ("", "dev", "proc")
"""Host paths that hold all devices; a privileged container may use those."""

RUNTIMES: Final = "(nvidia|gpu|ascend|cambricon|habana|metax|mthreads)"
"""What names of RuntimeClasses contain that hand out devices."""

CDI: Final = "cdi.k8s.io/"
_DEVICE_PATHS: Final = re.compile(DEVICE_PATHS)
_RUNTIMES: Final = re.compile(RUNTIMES)
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


class Bypass(StrEnum):
    """A way to GPUs that nobody counts."""

    ENVIRONMENT = "Environment"
    DEVICE_PATH = "DevicePath"
    PRIVILEGED = "Privileged"
    RUNTIME_CLASS = "RuntimeClass"
    CDI = "CDI"
    NODE_NAME = "NodeName"


BYPASSES: Final[dict[Bypass, str]] = {
    Bypass.ENVIRONMENT: "a variable such as NVIDIA_VISIBLE_DEVICES gives a container GPUs that nobody counts",
    Bypass.DEVICE_PATH: "a hostPath volume leads to the node's GPUs",
    Bypass.PRIVILEGED: "a privileged container with the node's devices reaches its GPUs",
    Bypass.RUNTIME_CLASS: "the runtimeClassName may give the pod GPUs, and it asks for none",
    Bypass.CDI: "an annotation of cdi.k8s.io gives a container uncounted devices",
    Bypass.NODE_NAME: "a preset nodeName takes the pod past the scheduler and the taints of GPU nodes",
}
"""What each way is, in words."""


def find_bypasses(pod: Mapping[str, Any], *, is_gpu: bool) -> tuple[Bypass, ...]:
    """The ways that a new pod takes; `is_gpu` says whether it asks for devices."""
    spec, annotations = _mapping(pod.get("spec")), _mapping(_mapping(pod.get("metadata")).get("annotations"))
    containers = [container for field in _CONTAINERS for container in _items(spec.get(field))]
    paths = list(_host_paths(spec))
    privileged = any(_mapping(item.get("securityContext")).get("privileged") is True for item in containers)
    runtime = str(spec.get("runtimeClassName") or "")
    asks = is_gpu or bool(spec.get("resourceClaims"))
    found = {
        Bypass.ENVIRONMENT: any(
            _hands_out(variable) for item in containers for variable in _items(item.get("env"))
        ),
        Bypass.DEVICE_PATH: any(_DEVICE_PATHS.match(path) for path in paths),
        Bypass.PRIVILEGED: privileged and any(path in BROAD_PATHS for path in paths),
        Bypass.RUNTIME_CLASS: bool(_RUNTIMES.search(runtime)) and not asks,
        Bypass.CDI: any(CDI in str(key) for key in annotations),
        Bypass.NODE_NAME: bool(spec.get("nodeName")),
    }
    return tuple(bypass for bypass in Bypass if found[bypass])


def _hands_out(variable: Mapping[str, Any]) -> bool:
    """Whether a variable hands out devices; a value that comes from elsewhere may."""
    if variable.get("name") not in ENVIRONMENT:
        return False
    return variable.get("valueFrom") is not None or (variable.get("value") or "") not in NO_DEVICES


def _host_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Host paths as the kernel reads them, without the first slash."""
    for volume in _items(spec.get("volumes")):
        path = _mapping(volume.get("hostPath")).get("path")
        if isinstance(path, str):
            yield "/".join(part for part in path.split("/") if part not in {"", "."})


def _mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> Iterator[Mapping[str, Any]]:
    """The mappings of a list."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item
