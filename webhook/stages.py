"""The checks of the validating path, one after the other; each sees the pod as it will be stored.

Places are fixed: terms, rights, images, quota. The last one takes what may have to be given back, so all
that can refuse without a trace comes before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from policy.classes import ClassDecision
from policy.objects import Pod
from policy.profile import is_enforcing
from webhook.answers import Allowed, Answer, Denied
from webhook.settle import SIGNATURE
from webhook.subject import Subject
from webhook.warnings import fit_warnings


class Checked(msgspec.Struct, frozen=True):
    """What stages look at: the final pod, its class, and the subject that it is."""

    subject: Subject
    pod: Pod
    decision: ClassDecision


class Finding(msgspec.Struct, frozen=True):
    """What one stage found. `refusal` is a sentence for the creator; None lets the pod pass.

    `missing` and `exceeding` are short names of terms.
    """

    refusal: Denied | None = None
    remarks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    exceeding: tuple[str, ...] = ()


PASSED = Finding()

Stage = Callable[[Checked], Awaitable[Finding]]
"""One check; it may wait for the API server, but never longer than the review's own time-out."""


class Summary(msgspec.Struct, frozen=True):
    """What all stages together found."""

    answer: Answer
    findings: tuple[Finding, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Terms that the pod lacks."""
        return tuple(term for finding in self.findings for term in finding.missing)

    @property
    def exceeding(self) -> tuple[str, ...]:
        """Terms beyond the policy."""
        return tuple(term for finding in self.findings for term in finding.exceeding)


async def run_stages(stages: Sequence[Stage], checked: Checked) -> Summary:
    """Runs the stages until one refuses; where nothing is enforced a refusal becomes a warning."""
    scene = checked.subject.scene
    enforcing = is_enforcing(scene.profile, scene.enforcement)
    findings: list[Finding] = []
    remarks: list[str] = []
    for stage in stages:
        finding = await stage(checked)
        findings.append(finding)
        remarks += finding.remarks
        if finding.refusal is None:
            continue
        if enforcing:
            warnings = fit_warnings(SIGNATURE + remark for remark in remarks)
            refusal = msgspec.structs.replace(finding.refusal, warnings=warnings)
            return Summary(refusal, tuple(findings))
        remarks.append(f"would be refused: {finding.refusal.message}")
    return Summary(Allowed(fit_warnings(SIGNATURE + remark for remark in remarks)), tuple(findings))
