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
from webhook.scene import Scene
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
    """Runs the stages, where something is enforced until one refuses."""
    scene = checked.subject.scene
    enforcing = is_enforcing(scene.profile, scene.enforcement)
    findings: list[Finding] = []
    for stage in stages:
        findings.append(await stage(checked))
        if enforcing and findings[-1].refusal is not None:
            break
    return Summary(conclude(findings, scene), tuple(findings))


def conclude(findings: Sequence[Finding], scene: Scene) -> Answer:
    """The answer that findings lead to; where nothing is enforced a refusal becomes a warning."""
    enforcing = is_enforcing(scene.profile, scene.enforcement)
    remarks: list[str] = []
    for finding in findings:
        remarks += finding.remarks
        if finding.refusal is None:
            continue
        if enforcing:
            warnings = fit_warnings(SIGNATURE + remark for remark in remarks)
            return msgspec.structs.replace(finding.refusal, warnings=warnings)
        remarks.append(f"would be refused: {finding.refusal.message}")
    return Allowed(fit_warnings(SIGNATURE + remark for remark in remarks))
