"""What admission decided about one object, as a value; the same for the webhook and for `explain`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from policy.asking import Replacement
from policy.classes import PodClass
from policy.devices import Devices
from policy.terms import Terms
from webhook.answers import Answer, Denied, Patched, PatchOperation
from webhook.patch import read_patch


class Outcome(StrEnum):
    """What became of a review; shared by metric and log."""

    PATCHED = "Patched"
    UNCHANGED = "Unchanged"
    CHECKED = "Checked"
    REFUSED = "Refused"
    NOT_CREATE = "NotCreate"
    NOT_OURS = "NotOurs"
    NOT_GPU = "NotGpu"
    CLAIMS_UNRESOLVED = "ClaimsUnresolved"
    EXCLUDED = "Excluded"
    OPTED_OUT = "OptedOut"
    NAMESPACE_UNKNOWN = "NamespaceUnknown"
    PATCH_UNFIT = "PatchUnfit"


OUTCOMES: dict[Outcome, str] = {
    Outcome.PATCHED: "The object got its terms or its deadline.",
    Outcome.UNCHANGED: "The object already had what it should have.",
    Outcome.CHECKED: "The terms of the pod were checked.",
    Outcome.REFUSED: "The object was refused.",
    Outcome.NOT_CREATE: "The request creates nothing.",
    Outcome.NOT_OURS: "The object is of a kind that is admitted as it is.",
    Outcome.NOT_GPU: "The object asks for no GPU.",
    Outcome.CLAIMS_UNRESOLVED: (
        "What its resource claims hold is not known: it was admitted as it is, and ResourceQuota counts them."
    ),
    Outcome.EXCLUDED: "The namespace is excluded by configuration.",
    Outcome.OPTED_OUT: "The namespace is disabled.",
    Outcome.NAMESPACE_UNKNOWN: "The namespace was not seen in time; the object was admitted without terms.",
    Outcome.PATCH_UNFIT: "The patch would not have been valid; the object was admitted without it.",
}
"""What each outcome means, in a sentence that documentation and `explain` show."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision and everything that explains it.

    `deadline` is the value of the annotation. `missing` and `exceeding` name terms by their short label names
    and are found by validation alone.
    """

    outcome: Outcome
    answer: Answer
    devices: Devices | None = None
    pod_class: PodClass | None = None
    policy: str | None = None
    terms: Terms | None = None
    deadline: str | None = None
    replaced: tuple[Replacement, ...] = ()
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    exceeding: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the object is admitted."""
        return not isinstance(self.answer, Denied)

    @property
    def is_gpu(self) -> bool:
        """Whether the object is, or makes, GPU pods."""
        return self.devices is not None and self.devices.is_gpu

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the sender is told."""
        return self.answer.warnings

    @property
    def patch(self) -> tuple[PatchOperation, ...]:
        """The operations that are sent."""
        return read_patch(self.answer.patch) if isinstance(self.answer, Patched) else ()
