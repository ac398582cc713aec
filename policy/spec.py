"""A GPUPolicy as a value; knows nothing of how it is written or checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from policy.classes import PodClass
from policy.durations import Duration
from policy.keys import BUILT_IN_NAME
from policy.memory import MemoryLimit
from policy.terms import Action, Reference, Statistic


class Operator(StrEnum):
    """How a selector's expression compares."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Expression(Struct, frozen=True):
    """One expression of a label selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class Selector(Struct, frozen=True):
    """A label selector: all of it must hold, and an empty one selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()


class Idle(Struct, frozen=True):
    """Idle terms as far as a policy names them; None is left to what stands below."""

    action: Action | None = None
    after: Duration | None = None
    utilization: int | None = None
    statistic: Statistic | None = None
    memory: MemoryLimit | None = None
    grace: Duration | None = None
    warm_up: Duration | None = None
    of: Reference | None = None
    never_touched: bool | None = None


class JobDeadlines(StrEnum):
    """Where the deadline of a Job is set."""

    JOB = "job"
    POD = "pod"
    NONE = "none"


class Deadline(Struct, frozen=True):
    """The deadline that pods and Jobs get, and the longest that they may ask for."""

    default: Duration
    max: Duration
    jobs: JobDeadlines = JobDeadlines.JOB


class Classes(Struct, frozen=True):
    """What a policy says of single classes."""

    creators: tuple[str, ...] = ()
    interactive: Idle = Idle()
    batch: Idle = Idle()
    serving: Idle = Idle()

    def idle(self, pod_class: PodClass) -> Idle:
        """The idle terms that the policy names for a class."""
        match pod_class:
            case PodClass.INTERACTIVE:
                return self.interactive
            case PodClass.BATCH:
                return self.batch
            case PodClass.SERVING:
                return self.serving


class Exemption(Struct, frozen=True):
    """Until when after its creation a pod may be exempt; `limit` None is never."""

    limit: Duration | None = None


class Bounds(Struct, frozen=True):
    """What users may ask for; None is the policy's own value."""

    after_min: Duration | None = None
    after_max: Duration | None = None
    grace: Duration | None = None
    keep_until: Duration | None = None
    exemption: Exemption = Exemption()


class Scheduling(Struct, frozen=True):
    """Scheduling fields that pods get, as the Kubernetes API spells them."""

    priority_class_name: str | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = {}
    node_affinity: Mapping[str, Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether pods get nothing of it."""
        return not (self.priority_class_name or self.tolerations or self.node_selector or self.node_affinity)


class Images(Struct, frozen=True):
    """The image references that pods may use; None is all."""

    allowed: tuple[str, ...] | None = None


WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class ActWindow(Struct, frozen=True):
    """When the reaper may act: on these days (numbers, Monday is 0), from `start` to `end`, in `time_zone`.

    A window whose end is before its start reaches into the next day, and belongs to the day it starts on.
    What the clocks there show counts: times that they skip are in no window, times that come twice are in it
    twice.
    """

    days: frozenset[int]
    start: time
    end: time
    time_zone: str

    def is_open(self, local: datetime) -> bool:
        """Whether the window is open at a time given in its own zone; the end is outside."""
        now, day = local.time(), local.weekday()
        if self.start < self.end:
            return day in self.days and self.start <= now < self.end
        return (day in self.days and now >= self.start) or ((day - 1) % 7 in self.days and now < self.end)


class Contact(Struct, frozen=True):
    """Whom a user may ask, shown at the end of messages."""

    text: str = ""
    url: str = ""

    def __str__(self) -> str:
        """Text and address in one line, empty where there is neither."""
        return " ".join(part for part in (self.text, self.url) if part)


class GPUPolicy(Struct, frozen=True):
    """What applies to the GPU pods of the namespaces that it selects; `namespace_selector` None is all."""

    name: str
    priority: int = 0
    namespace_selector: Selector | None = None
    idle: Idle = Idle()
    deadline: Deadline | None = None
    batch_deadline: Deadline | None = None
    classes: Classes = Classes()
    bounds: Bounds = Bounds()
    scheduling: Scheduling = Scheduling()
    images: Images = Images()
    act_window: ActWindow | None = None
    contact: Contact = Contact()
    require_terms: bool = False
    require_use: bool = False
    uid: str = ""
    generation: int = 0
    created: datetime | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether this is the policy that holds where no other does."""
        return self.name == BUILT_IN_NAME

    def deadline_of(self, pod_class: PodClass) -> Deadline | None:
        """The deadline block that counts for a class."""
        return self.batch_deadline if pod_class is PodClass.BATCH else self.deadline


BUILT_IN: Final = GPUPolicy(name=BUILT_IN_NAME, idle=Idle(action=Action.OBSERVE))
"""Holds where no policy selects a namespace, or the one that would is invalid: observes, no deadline."""
