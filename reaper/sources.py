"""What a table of an exporter can say: roles, forms of labels, metrics, sources; knows no exporter."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

MIB: Final = float(1 << 20)
TEN_YEARS: Final = 10 * 365 * 86_400.0


class Role(StrEnum):
    """What a metric can say about idleness.

    ACTIVITY is compared with the threshold and must agree. HOST is the activity of the physical card, whoever
    causes it. KERNEL is seconds since the last kernel. MEMORY, FREE and LIMIT are about device memory.
    FAULT_CODE (non-zero), LAST_FAULT (a code that stays until a reset: not the same for the whole window),
    FAULT_COUNT (moved), ENERGY (stood still) and POWER (above rest) only veto.
    HOLDER tells which pod holds which device, whatever its value. ALLOCATED tells that a share was given out,
    PROCESS (above 0) that a process is there; in percent it tells how much the process computes, and must
    agree. NAME tells which device is meant where others lack its name.
    """

    ACTIVITY = "activity"
    HOST = "host"
    KERNEL = "kernel"
    MEMORY = "memory"
    FREE = "free"
    LIMIT = "limit"
    FAULT_CODE = "fault-code"
    LAST_FAULT = "last-fault"
    FAULT_COUNT = "fault-count"
    ENERGY = "energy"
    POWER = "power"
    HOLDER = "holder"
    ALLOCATED = "allocated"
    PROCESS = "process"
    NAME = "name"


BOARD_ROLES: Final = frozenset(
    {Role.HOST, Role.FAULT_CODE, Role.LAST_FAULT, Role.FAULT_COUNT, Role.ENERGY, Role.POWER}
)
"""Roles of metrics that describe the physical device only."""

PROVING_ROLES: Final = frozenset({Role.ACTIVITY, Role.HOST})
"""Roles of metrics that may prove idleness."""


class Sharing(StrEnum):
    """What a pod's series describe: whole devices (or MIG instances), or shares of a device."""

    DEVICE = "device"
    SHARE = "share"


class Metric(Struct, frozen=True, cache_hash=True):
    """One metric.

    Attributes:
        name: The name in Prometheus.
        signal: What it is called in evidence.
        role: What it can say.
        scale: Factor from the exported unit to `unit`.
        highest: The largest value that can be true, as exported; the smallest is 0.
        unit: `%`, `B`, `s`, `W` or empty.
        principal: Whether it may prove idleness; others only agree or disagree.
        where: Labels with the values that its series must have.
    """

    name: str
    signal: str
    role: Role
    scale: float = 1.0
    highest: float = 100.0
    unit: str = "%"
    principal: bool = False
    where: tuple[tuple[str, str], ...] = ()

    @property
    def works(self) -> bool:
        """Whether it tells how much a process computes; one that only holds memory may be parked."""
        return self.role is Role.PROCESS and self.unit == "%"


class Form(Struct, frozen=True, cache_hash=True):
    """One way in which series name the workload; the labels are empty where a form has none.

    Attributes:
        namespace: The label with the namespace,
        pod: with the pod,
        container: and with the container.
        lacks: Labels that series of this form do not have; with them they are of another form.
        clashes: Whether a scrape's own labels may look the same, and then name the exporter.
    """

    namespace: str = ""
    pod: str = ""
    container: str = ""
    lacks: tuple[str, ...] = ()
    clashes: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that name the workload, and the scrape job where a target's labels may look the same."""
        names = tuple(name for name in (self.namespace, self.pod, self.container) if name)
        return (*names, "job") if self.clashes else names

    @property
    def marks(self) -> tuple[str, ...]:
        """The labels that series of this form have, by which it is told from others."""
        # A plain `namespace` tells nothing: most scrapes add it.
        return tuple(name for name in (self.namespace, self.pod) if name and name != "namespace")

    @property
    def matchers(self) -> str:
        """PromQL matchers that keep the series of this form."""
        absent = (f'{name}=""' for name in self.lacks)
        return ",".join((*absent, *(f'{name}!=""' for name in self.marks)))

    def fits(self, present: Collection[str]) -> bool:
        """Whether series with these labels are of this form."""
        return all(name in present for name in self.marks) and not any(name in present for name in self.lacks)


KEPT: Final = "exported_"
"""What precedes an exporter's label where the scrape has a label of the same name (honorLabels: false)."""
EXPORTED_POD: Final = f"{KEPT}pod"
EXPORTED_NAMESPACE: Final = f"{KEPT}namespace"
OLD_NAMESPACE: Final = "pod_namespace"

EXPORTED: Final = Form(EXPORTED_NAMESPACE, EXPORTED_POD, f"{KEPT}container")
MIXED: Final = Form(EXPORTED_NAMESPACE, "pod", "container", lacks=(EXPORTED_POD,))
"""The target has a namespace and no pod, as an exporter outside the cluster has."""
PLAIN: Final = Form(
    "namespace", "pod", "container", lacks=(EXPORTED_POD, EXPORTED_NAMESPACE, OLD_NAMESPACE), clashes=True
)
CLASHING: Final = frozenset(PLAIN.lacks)
"""Labels by which a scrape job is known to name workloads in another form than the plain one."""
OLD: Final = Form(OLD_NAMESPACE, "pod_name", "container_name")
WHOLE: Final = Form()
"""The device, whoever uses it and whether or not its series name anybody."""


def forms(namespace: str = "namespace", pod: str = "pod", container: str = "container") -> tuple[Form, ...]:
    """The forms in which an exporter's own labels arrive, whatever the scrape does with them."""
    if (namespace, pod) == (PLAIN.namespace, PLAIN.pod):
        kept = (EXPORTED, MIXED, PLAIN)
        return (
            kept if container == PLAIN.container else tuple(replace(one, container=container) for one in kept)
        )
    if pod == PLAIN.pod:
        own = Form(namespace, pod, container, lacks=(EXPORTED_POD,), clashes=True)
        return (Form(namespace, EXPORTED_POD, container), own)
    own = Form(namespace, pod, container)
    if namespace == PLAIN.namespace:
        return (replace(own, namespace=EXPORTED_NAMESPACE), replace(own, lacks=(EXPORTED_NAMESPACE,)))
    return (own,)


class Source(Struct, frozen=True, cache_hash=True):
    """One exporter.

    Attributes:
        name: Its name in settings and evidence.
        sharing: What its pod series describe.
        forms: How series may name the workload. Without any, its series describe devices alone, and count
            for a pod only where another source says who holds the device; with a metric of the role HOLDER,
            only that one names workloads.
        device: Labels that together name the physical device.
        metrics: The table.
        instance: Label of the part of the device: a MIG instance, a virtual device, a partition.
        virtual: Label that marks a value as one sharer's, not the device's; empty if there is none.
        uid: Labels that may hold the pod's UID, where the exporter is told to add it.
        vendors: Whose devices it sees, as the table of resources names them.
        prefix: What every device's name begins with; added where the label leaves it out.
        mode: Label that tells how a device is divided; empty if there is none.
        undivided: The values of `mode` of a device that is whole; series of others prove nothing.
        rests: Whether idleness needs a power that shows the device at rest, too.
        by_card: Vendors whose shares are judged by the physical card alone.
        alias: Labels that stand for the device in metrics of processes that lack its name; a metric of the
            role NAME has both.
    """

    name: str
    sharing: Sharing
    forms: tuple[Form, ...]
    device: tuple[str, ...]
    metrics: tuple[Metric, ...]
    instance: str = ""
    virtual: str = ""
    uid: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ("nvidia",)
    prefix: str = ""
    mode: str = ""
    undivided: tuple[str, ...] = ()
    rests: bool = False
    by_card: tuple[str, ...] = ()
    alias: Form = WHOLE

    @property
    def apart(self) -> bool:
        """Whether its series describe devices alone, so that another metric must say who holds them."""
        return not self.forms or any(metric.role is Role.HOLDER for metric in self.metrics)

    def forms_of(self, metric: Metric) -> tuple[Form, ...]:
        """The forms in which a metric is asked for: by workload, or for the device as a whole, or both."""
        if self.alias.pod and metric.role in {Role.PROCESS, Role.NAME}:
            return (self.alias,)
        if metric.role in BOARD_ROLES or (self.apart and metric.role is not Role.HOLDER):
            return (WHOLE,)
        if metric.role is Role.ACTIVITY and self.sharing is Sharing.DEVICE:
            return (*self.forms, WHOLE)
        return self.forms
