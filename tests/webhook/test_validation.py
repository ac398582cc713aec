"""What the validating path finds: missing terms, terms beyond the policy, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from webhook.answers import Allowed, Denied, RefusedBy
from webhook.decision import Decision, Outcome
from webhook.stages import Checked, Finding, Stage
from webhook.validation import terms_stage, validate

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

P = "gpu-tenure.io/"
Object = dict[str, Any]
MakePod = Callable[..., Object]


async def check(door: Door, obj: Object, *more: Stage) -> Decision:
    """Runs the validating path."""
    stages = (terms_stage(door.memory), *more)
    return await validate(door.request(obj), door.world(), door.settings(), door.memory, stages)


async def test_what_was_admitted_passes_in_silence(enforced: Door, pod: MakePod) -> None:
    """Nothing is said about a pod that carries what it should."""
    admitted, _ = enforced.admit(pod(metadata={"labels": {f"{P}idle-after": "9h"}}))
    decision = await check(enforced, admitted)
    assert (decision.outcome, decision.answer) == (Outcome.CHECKED, Allowed())
    assert (decision.missing, decision.exceeding) == ((), ())


async def test_missing_terms_are_told_and_never_refused(enforced: Door, pod: MakePod) -> None:
    """The mutating webhook was not reached: the pod is admitted, and its creator told."""
    decision = await check(enforced, pod())
    assert decision.allowed
    assert "policy" in decision.missing
    assert "idle-after" in decision.missing
    assert decision.warnings[0].startswith("gpu-tenure: this GPU pod lacks")


@pytest.mark.parametrize(
    ("label", "value", "term"),
    [
        pytest.param("idle-after", "9h", "idle-after", id="a longer time than bounds allow"),
        pytest.param("idle-action", "observe", "idle-action", id="a milder action"),
        pytest.param("idle-utilization", "90", "idle-utilization", id="another threshold"),
        pytest.param("idle-grace", "x", "idle-grace", id="a malformed grace"),
    ],
)
async def test_terms_beyond_the_policy_are_told(
    enforced: Door, pod: MakePod, label: str, value: str, term: str
) -> None:
    """Another webhook, or a person without ours, wrote what the policy does not give."""
    admitted, _ = enforced.admit(pod())
    admitted["metadata"]["labels"][P + label] = value
    decision = await check(enforced, admitted)
    assert decision.allowed
    assert decision.exceeding == (term,)
    assert f"{term} of this pod exceed policy default" in decision.warnings[0]


async def test_a_deadline_above_the_maximum_is_told(enforced: Door, pod: MakePod) -> None:
    """A pod that slipped past the mutating webhook may have any deadline."""
    decision = await check(enforced, pod(activeDeadlineSeconds=9_999_999))
    assert "deadline" in decision.exceeding


@pytest.mark.parametrize(
    ("profile", "allowed"),
    [
        pytest.param(Profile.OBSERVE, True, id="observe only tells"),
        pytest.param(Profile.WARN, True, id="warn only tells"),
        pytest.param(Profile.ENFORCE, False, id="enforce refuses"),
    ],
)
async def test_required_terms(door: Door, pod: MakePod, profile: Profile, allowed: bool) -> None:
    """Only a policy with requireTerms refuses a pod without terms, and only under enforce."""
    door.policy(requireTerms=True)
    door.profile = profile
    decision = await check(door, pod())
    assert decision.allowed is allowed
    if allowed:
        assert "would be refused" in decision.warnings[0]
    else:
        assert decision.outcome is Outcome.REFUSED
        assert isinstance(decision.answer, Denied)
        assert decision.answer.code == 403
        assert "requires idle terms" in decision.answer.message
    admitted, _ = door.admit(pod())
    assert (await check(door, admitted)).answer == Allowed()


async def test_a_refusal_ends_the_stages_and_keeps_earlier_remarks(enforced: Door, pod: MakePod) -> None:
    """What comes after a refusal must not take anything."""
    ran: list[str] = []

    async def refuse(checked: Checked) -> Finding:
        ran.append("refuse")
        return Finding(
            refusal=Denied(f"no {checked.decision.pod_class}", RefusedBy.TERMS), remarks=("a remark",)
        )

    async def never(checked: Checked) -> Finding:
        ran.append(checked.subject.request.uid)
        return Finding()

    decision = await check(enforced, enforced.admit(pod())[0], refuse, never)
    assert isinstance(decision.answer, Denied)
    assert decision.answer.message == "no batch"
    assert decision.warnings == ("gpu-tenure: a remark",)
    assert ran == ["refuse"]
    enforced.profile = Profile.WARN
    decision = await check(enforced, enforced.admit(pod())[0], refuse, never)
    assert decision.allowed
    assert decision.warnings == ("gpu-tenure: a remark", "gpu-tenure: would be refused: no batch")
    assert ran == ["refuse", "refuse", "0001"]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param(
            {"operation": "UPDATE", "sub_resource": "status"}, Outcome.NOT_CREATE, id="updates of the status"
        ),
        pytest.param({"namespace": "kube-system"}, Outcome.EXCLUDED, id="excluded namespaces"),
        pytest.param(
            {"namespace_labels": {f"{P}enforcement": "disabled"}}, Outcome.OPTED_OUT, id="disabled namespaces"
        ),
        pytest.param({"namespace_known": False}, Outcome.NAMESPACE_UNKNOWN, id="unknown namespaces"),
    ],
)
async def test_what_is_not_checked(
    door: Door, pod: MakePod, change: dict[str, Any], outcome: Outcome
) -> None:
    """The same gates as before mutation."""
    door.policy(requireTerms=True)
    for name, value in change.items():
        setattr(door, name, value)
    decision = await check(door, pod())
    assert (decision.outcome, decision.answer) == (outcome, Allowed())


async def test_jobs_are_not_checked(enforced: Door, job: Callable[..., Object]) -> None:
    """Their pods are."""
    assert (await check(enforced, job())).outcome is Outcome.NOT_OURS
