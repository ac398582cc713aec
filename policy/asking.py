"""Idle terms from a policy, a class and what the user asked; knows nothing of running pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from policy import defaults
from policy.classes import PodClass
from policy.durations import Duration, parse_duration
from policy.keys import SEED_EVICTION_POLICY, SEED_NEVER, TERM_LABELS, Annotation, Label, short_name
from policy.spec import Bounds, GPUPolicy
from policy.terms import EXEMPT, Action, LabelledTerms, Statistic, Terms, read_labels, terms_to_labels

CLASS_ROWS: Final[dict[PodClass, Terms]] = {
    pod_class: Terms(
        action=action,
        after=parse_duration(after),
        utilization=defaults.UTILIZATION_PERCENT,
        statistic=Statistic.MAXIMUM,
        memory=None,
        grace=parse_duration(defaults.GRACE),
        warm_up=parse_duration(defaults.WARM_UP),
    )
    for pod_class, action, after in (
        (PodClass.INTERACTIVE, Action.EVICT, defaults.INTERACTIVE_AFTER),
        (PodClass.BATCH, Action.EVICT, defaults.BATCH_AFTER),
        (PodClass.SERVING, Action.WARN, defaults.SERVING_AFTER),
    )
}
"""The terms of a class where a policy says nothing."""

FIELD_LABELS: Final[dict[str, Label]] = {
    "action": Label.IDLE_ACTION,
    "after": Label.IDLE_AFTER,
    "utilization": Label.IDLE_UTILIZATION,
    "statistic": Label.IDLE_STATISTIC,
    "memory": Label.IDLE_MEMORY,
    "grace": Label.IDLE_GRACE,
    "warm_up": Label.IDLE_WARM_UP,
}
"""The fields of Terms and the labels that spell them."""
_TERM_TEXTS: Final = tuple(label.value for label in TERM_LABELS)
_TERM_NAMES: Final = frozenset(short_name(label) for label in TERM_LABELS)


class Range(Struct, frozen=True):
    """The shortest and the longest duration that may be asked for; the policy's own is always inside."""

    low: Duration
    high: Duration

    def clamp(self, duration: Duration) -> Duration:
        """The duration, or the nearest bound."""
        return min(max(duration, self.low), self.high)


class Replacement(Struct, frozen=True):
    """A label (or the annotation `gpu-eviction-policy`) whose value was replaced.

    `given` is None where the label is taken away.
    """

    label: str
    asked: str
    given: str | None
    why: str

    def __str__(self) -> str:
        """The sentence that a user reads, with both values."""
        given = "none" if self.given is None else self.given
        return f"{short_name(self.label)}: asked {self.asked[:24]!r}, got {given}: {self.why}"


class Admitted(Struct, frozen=True):
    """The terms of a new pod, the short label names that differ from the policy's, and what was replaced."""

    terms: Terms
    asked: tuple[str, ...] = ()
    replaced: tuple[Replacement, ...] = ()


def policy_terms(policy: GPUPolicy, pod_class: PodClass) -> Terms:
    """The terms that a policy gives to a class: per field the class's block, else `idle`, else the row."""
    first, second, row = policy.classes.idle(pod_class), policy.idle, CLASS_ROWS[pod_class]
    return Terms(
        action=first.action or second.action or row.action,
        after=first.after or second.after or row.after,
        utilization=first.utilization or second.utilization or row.utilization,
        statistic=first.statistic or second.statistic or row.statistic,
        memory=first.memory or second.memory or row.memory,
        grace=first.grace or second.grace or row.grace,
        warm_up=first.warm_up or second.warm_up or row.warm_up,
        of=first.of or second.of or row.of,
        # Here False is a value of its own.
        never_touched=next(
            (one for one in (first.never_touched, second.never_touched) if one is not None), row.never_touched
        ),
    )


def after_range(bounds: Bounds, own: Terms) -> Range:
    """What may be asked for `idle-after` where the policy's own terms are these."""
    return Range(min(bounds.after_min or own.after, own.after), max(bounds.after_max or own.after, own.after))


def grace_range(bounds: Bounds, own: Terms) -> Range:
    """What may be asked for `idle-grace`: never less than the policy's own."""
    return Range(own.grace, max(bounds.grace or own.grace, own.grace))


def wants_exemption(labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> str | None:
    """The key by which a pod asks to be exempt: the label, else `gpu-eviction-policy: never`; else None."""
    if (labels or {}).get(Label.IDLE_ACTION) == EXEMPT:
        return Label.IDLE_ACTION.value
    if (annotations or {}).get(SEED_EVICTION_POLICY) == SEED_NEVER:
        return SEED_EVICTION_POLICY
    return None


def admitted_terms(
    policy: GPUPolicy,
    pod_class: PodClass,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
) -> Admitted:
    """The terms of a pod that is being created, from its policy and what its labels ask.

    Nothing is refused: what cannot be given is replaced, with both values named. Admitting the pod again from
    the labels that these terms spell gives the same terms.
    """
    own = policy_terms(policy, pod_class)
    exemption_key = wants_exemption(labels, annotations)
    wishes = {label: labels[label] for label in _TERM_TEXTS if label in labels} if labels else {}
    if exemption_key is None and (not wishes or wishes == terms_to_labels(own)):
        return Admitted(own)
    found, errors = read_labels(labels)
    malformed = {error.path: error.message for error in errors}
    asking = _Asking(policy.bounds, own, found, wishes, malformed)
    action, exempt = asking.action(exemption_key)
    terms = msgspec.structs.replace(
        own,
        action=action,
        exempt=exempt,
        after=asking.duration("after", after_range(policy.bounds, own)),
        grace=asking.duration("grace", grace_range(policy.bounds, own)),
    )
    for field in ("utilization", "statistic", "memory", "warm_up"):
        asking.refuse_other(field)
    return Admitted(terms, asked_of(terms, own), tuple(asking.replaced))


def asked_of(terms: Terms, own: Terms) -> tuple[str, ...]:
    """The sorted short label names whose value differs from the policy's own."""
    names = [
        short_name(label)
        for field, label in FIELD_LABELS.items()
        if getattr(terms, field) != getattr(own, field) or (field == "action" and terms.exempt)
    ]
    return tuple(sorted(names))


def parse_asked(annotations: Mapping[str, str] | None) -> frozenset[str]:
    """The short label names that the annotation `asked` lists; unknown names are ignored."""
    text = (annotations or {}).get(Annotation.ASKED, "")
    return frozenset(text.split(",")) & _TERM_NAMES if text else frozenset()


class _Asking:
    """One pod's wishes against one policy; collects the replacements in the order of the labels."""

    def __init__(
        self,
        bounds: Bounds,
        own: Terms,
        found: LabelledTerms,
        labels: dict[str, str],
        malformed: dict[str, str],
    ) -> None:
        self.bounds = bounds
        self.own = own
        self.found = found
        self.labels = labels
        self.malformed = malformed
        self.spelled = terms_to_labels(own)
        self.replaced: list[Replacement] = []

    def replace(self, label: str, given: str | None, why: str) -> None:
        """Notes that what a label asks is not given."""
        self.replaced.append(Replacement(label, self.labels[label], given, why))

    def action(self, exemption_key: str | None) -> tuple[Action, bool]:
        """The action, and whether the pod is exempt."""
        if exemption_key is not None:
            if self.bounds.exemption.limit is not None:
                return Action.OBSERVE, True
            self.labels.setdefault(SEED_EVICTION_POLICY, SEED_NEVER)
            self.replace(exemption_key, self.own.action, "the policy allows no exemption")
        asked = self.found.action
        label = Label.IDLE_ACTION.value
        if self.found.exempt or (asked is None and label not in self.labels):
            return self.own.action, False
        if asked is None:
            self.replace(label, self.own.action, self.malformed[label])
        elif asked.rank < self.own.action.rank:
            self.replace(label, self.own.action, "only a stronger action may be asked for")
        else:
            return asked, False
        return self.own.action, False

    def duration(self, field: str, allowed: Range) -> Duration:
        """A duration that may be asked for within a range."""
        label = FIELD_LABELS[field].value
        own: Duration = getattr(self.own, field)
        asked: Duration | None = getattr(self.found, field)
        if label not in self.labels:
            return own
        if asked is None:
            self.replace(label, own.text, self.malformed[label])
            return own
        given = allowed.clamp(asked)
        if given != asked:
            why = f"at most {allowed.high}" if asked > allowed.high else f"at least {allowed.low}"
            self.replace(label, given.text, f"the policy allows {why}")
        return asked if given == asked else given

    def refuse_other(self, field: str) -> None:
        """Notes a term that nobody may ask for, where it is not the policy's own anyway."""
        label = FIELD_LABELS[field].value
        if label not in self.labels:
            return
        if label in self.malformed:
            self.replace(label, self.spelled.get(label), self.malformed[label])
        elif getattr(self.found, field) != getattr(self.own, field):
            self.replace(label, self.spelled.get(label), "only the policy sets it")
