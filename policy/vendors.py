r"""The built-in rows of the table of GPU resources, by vendor; knows nothing of pods.

The first row that matches a name in full holds. Weights are the share of one card's compute that a unit
holds; where a name tells less than that (a time-slice, a profile of several cards), the row says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from policy.resource_rules import ResourceRule, Unit

HAMI_DEVICE: Final = "nvidia.com/gpu"
"""The device that HAMi's companions belong to."""

VMLU: Final = "cambricon.com/vmlu"
"""The share that HAMi gives of a Cambricon card."""

_MIG: Final = r"nvidia\.com/mig-"
_ANY_EXTRA: Final = r"([.+-][a-z0-9.+-]*)?"


def _profiles(cards: Iterable[tuple[str, int]]) -> tuple[tuple[str, Fraction], ...]:
    """Patterns and weights of MIG profiles: `4g.24gb` of a card of 4 weighs 4/4, with any attribute."""
    return tuple(
        (f"{_MIG}{profile.replace('.', '[.]')}{_ANY_EXTRA}", Fraction(int(profile[0]), slices))
        for profile, slices in cards
    )


MIG_PROFILES: Final = (
    # A30, RTX PRO 6000 and RTX PRO 4500 have 4 and 2 compute slices; all other cards have 7.
    *_profiles([("1g.6gb", 4), ("2g.12gb", 4), ("4g.24gb", 4)]),
    *_profiles([("1g.24gb", 4), ("2g.48gb", 4), ("4g.96gb", 4)]),
    *_profiles([("1g.16gb", 2), ("2g.32gb", 2)]),
    *((rf"{_MIG}{count}g\.[a-z0-9.+-]+", Fraction(count, 7)) for count in range(1, 8)),
)
"""Weights of MIG profiles. Where four 1g.24gb fill a card of 7 slices too, each weighs a fourth."""


def _row(vendor: str, unit: Unit, pattern: str, *examples: str, **more: Any) -> ResourceRule:  # noqa: ANN401
    """One row; without examples the pattern is a plain name, its own example."""
    names = examples or (pattern,)
    return ResourceRule(
        pattern=pattern if examples else pattern.replace(".", r"\."),
        vendor=vendor,
        unit=unit,
        examples=names,
        **more,
    )


def _shared(vendor: str, domain: str, device: str, memory: str, core: str) -> tuple[ResourceRule, ...]:
    """The rows of a vendor whose cards HAMi shares: what is held, and memory and cores of each."""
    of = f"{domain}/{device}"
    return (
        _row(vendor, Unit.SHARE, of),
        _row(vendor, Unit.MEMORY, f"{domain}/{memory}", of=of),
        _row(vendor, Unit.CORE, f"{domain}/{core}", of=of),
    )


_NVIDIA: Final = (
    _row("nvidia", Unit.DEVICE, "nvidia.com/gpu"),
    _row("nvidia", Unit.SHARE, "nvidia.com/gpu.shared"),
    _row(
        "nvidia",
        Unit.SLICE,
        r"nvidia\.com/mig-[a-z0-9.+-]+",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/mig-2g.12gb",
        profiles=MIG_PROFILES,
    ),
    _row("hami", Unit.MEMORY, "nvidia.com/gpumem", of=HAMI_DEVICE),
    _row("hami", Unit.MEMORY, "nvidia.com/gpumem-percentage", of=HAMI_DEVICE),
    _row("hami", Unit.CORE, "nvidia.com/gpucores", of=HAMI_DEVICE),
    _row("nvidia", Unit.DEVICE, "alpha.kubernetes.io/nvidia-gpu"),
)

_AMD_MODES: Final = (("spx", 1), ("dpx", 2), ("tpx", 3), ("qpx", 4), ("cpx", 8))
_AMD: Final = (
    _row("amd", Unit.DEVICE, "amd.com/gpu"),
    _row(
        "amd",
        Unit.SLICE,
        r"amd\.com/[sdtqc]px_nps[1248]",
        "amd.com/cpx_nps4",
        "amd.com/dpx_nps2",
        profiles=tuple((rf"amd\.com/{mode}_nps[1248]", Fraction(1, parts)) for mode, parts in _AMD_MODES),
    ),
)

_SINGLE: Final = (
    _row("intel", Unit.DEVICE, "gpu.intel.com/i915"),
    _row("intel", Unit.DEVICE, "gpu.intel.com/xe"),
    _row("gaudi", Unit.DEVICE, "habana.ai/gaudi"),
    _row("aws", Unit.DEVICE, "aws.amazon.com/neuron"),
    _row("aws", Unit.DEVICE, "aws.amazon.com/neurondevice"),
    # Two cores make a device, but for the first and the latest generation.
    _row("aws", Unit.SLICE, "aws.amazon.com/neuroncore", weight=Fraction(1, 2)),
    _row("google", Unit.DEVICE, "google.com/tpu"),
)

_NPU: Final = r"huawei\.com/Ascend[A-Za-z0-9]+"
_ASCEND: Final = (
    _row("huawei", Unit.MEMORY, f"({_NPU})-memory", "huawei.com/Ascend910B-memory", of=r"\1"),
    _row("huawei", Unit.CORE, f"({_NPU})-core", "huawei.com/Ascend910B-core", of=r"\1"),
    _row(
        "huawei",
        Unit.SLICE,
        rf"{_NPU}-[0-9]+c[a-z0-9._]*",
        "huawei.com/Ascend910-4c",
        "huawei.com/Ascend310P-4c.3cpu",
        profiles=(
            *((rf"huawei\.com/Ascend910-{cores}c.*", Fraction(cores, 32)) for cores in (2, 4, 8, 16)),
            *((rf"huawei\.com/Ascend310P-{cores}c.*", Fraction(cores, 8)) for cores in (1, 2, 4)),
        ),
    ),
    _row("huawei", Unit.DEVICE, _NPU, "huawei.com/Ascend910", "huawei.com/Ascend310P"),
)

_MLU: Final = r"cambricon\.com/[A-Za-z0-9._-]"
_CAMBRICON: Final = (
    _row("cambricon", Unit.MEMORY, rf"{_MLU}*(vmemory|mlumem)", "cambricon.com/mlu370.smlu.vmemory", of=VMLU),
    _row("cambricon", Unit.CORE, rf"{_MLU}*vcore", "cambricon.com/mlu370.smlu.vcore", of=VMLU),
    _row("cambricon", Unit.SHARE, VMLU),
    _row("cambricon", Unit.SHARE, rf"{_MLU}+\.share", "cambricon.com/mlu370.share"),
    _row("cambricon", Unit.SLICE, rf"{_MLU}+\.mim-[a-z0-9._-]+", "cambricon.com/mlu370.mim-2m.8gb"),
    _row("cambricon", Unit.DEVICE, rf"{_MLU}+", "cambricon.com/mlu", "cambricon.com/mlu370"),
)

_OTHERS: Final = (
    *_shared("hygon", "hygon.com", "dcunum", "dcumem", "dcucores"),
    _row("hygon", Unit.DEVICE, "hygon.com/dcu"),
    _row("metax", Unit.DEVICE, "metax-tech.com/gpu"),
    *_shared("metax", "metax-tech.com", "sgpu", "vmemory", "vcore"),
    _row("enflame", Unit.DEVICE, "enflame.com/gcu"),
    *_shared("mthreads", "mthreads.com", "vgpu", "sgpu-memory", "sgpu-core"),
    _row("mthreads", Unit.DEVICE, "mthreads.com/gpu"),
    _row("iluvatar", Unit.DEVICE, "iluvatar.ai/gpu"),
    *_shared("iluvatar", "iluvatar.ai", "vgpu", "vcuda-memory", "vcuda-core"),
)

_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
_KOORDINATOR: Final = (
    _row("koordinator", Unit.SHARE, _RATIO, whole=100),
    _row("koordinator", Unit.SHARE, "koordinator.sh/gpu", whole=100),
    _row("koordinator", Unit.CORE, "koordinator.sh/gpu-core", of=_RATIO, each=False),
)

_VGPU: Final = "vgpu-number"
_VOLCANO: Final = (
    *_shared("volcano", "volcano.sh", _VGPU, "vgpu-memory", "vgpu-cores"),
    _row("volcano", Unit.MEMORY, "volcano.sh/vgpu-memory-percentage", of=f"volcano.sh/{_VGPU}"),
)

DEVICE_CLASS_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
"""What follows the name of a device class in the name by which ResourceQuota counts its devices."""

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""What precedes it in the name by which containers ask for devices of a class without a claim."""

_CLASSES: Final = (
    ("gpu.nvidia.com", "nvidia", Unit.DEVICE),
    ("vfio.gpu.nvidia.com", "nvidia", Unit.DEVICE),
    ("mig.nvidia.com", "nvidia", Unit.SLICE),
    ("gpu.amd.com", "amd", Unit.DEVICE),
    ("gpu.intel.com", "intel", Unit.DEVICE),
    ("gaudi.intel.com", "gaudi", Unit.DEVICE),
    ("tpu.google.com", "google", Unit.DEVICE),
    ("neuron.aws.com", "aws", Unit.DEVICE),
)
_DRA: Final = tuple(
    _row(vendor, unit, name)
    for device_class, vendor, unit in _CLASSES
    for name in (f"{device_class}{DEVICE_CLASS_SUFFIX}", f"{DEVICE_CLASS_PREFIX}{device_class}")
)

KAI_FRACTION: Final = "gpu-fraction"
KAI_MEMORY: Final = "gpu-memory"
KAI_DEVICES: Final = "gpu-fraction-num-devices"
KAI_CONTAINER: Final = "gpu-fraction-container-name"
KAI_ANNOTATIONS: Final = (KAI_FRACTION, KAI_MEMORY)
"""Annotations by which pods ask KAI for a part of a card."""

KAI_PREFIX: Final = "kai.scheduler/"
"""What precedes such a key where it stands among names of resources."""

KAI_READ: Final = (*KAI_ANNOTATIONS, KAI_DEVICES, KAI_CONTAINER)
"""All annotations that counting looks at."""

_KAI: Final = (
    # Thousandths of a card.
    _row("kai", Unit.SHARE, f"{KAI_PREFIX}{KAI_FRACTION}", whole=1000),
    _row("kai", Unit.MEMORY, f"{KAI_PREFIX}{KAI_MEMORY}"),
)

NOTHING: Final = _row(
    "any", Unit.NOTHING, ".*monitoring", "gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring"
)
"""Names of monitoring access hold no device, whoever makes them."""

BUILT_IN: Final = (
    NOTHING,
    *_NVIDIA,
    *_AMD,
    *_SINGLE,
    *_ASCEND,
    *_CAMBRICON,
    *_OTHERS,
    *_KOORDINATOR,
    *_VOLCANO,
    *_DRA,
    *_KAI,
)
"""All rows, in the order in which they are tried."""
