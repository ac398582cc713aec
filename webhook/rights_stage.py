"""Decides whether who sent a GPU object may use its policy; asks through Rights, and changes nothing."""

from __future__ import annotations

from typing import Protocol

from policy.profile import is_enforcing
from policy.spec import GPUPolicy
from webhook.answers import Denied, RefusedBy, try_again, with_contact
from webhook.review import UserInfo
from webhook.rights import Right
from webhook.scene import AdmissionSettings
from webhook.stages import PASSED, Checked, Finding, Stage
from webhook.subject import Subject


class RightsPort(Protocol):
    """Who knows rights; webhook.rights.Rights does."""

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:
        """Whether a user may use a policy in a namespace; never raises."""
        ...


def rights_stage(rights: RightsPort, settings: AdmissionSettings) -> Stage:
    """The stage of pods."""

    async def check(checked: Checked) -> Finding:
        return await check_right(checked.subject, rights, settings)

    return check


async def check_right(subject: Subject, rights: RightsPort, settings: AdmissionSettings) -> Finding:
    """Asks for the right of who sent the object, where the policy wants one.

    Trusted controllers act for somebody whose object was checked when it came. Where nothing is enforced, a
    question without an answer is no reason to tell anybody anything.
    """
    request, policy = subject.request, subject.selected.policy
    if not policy.require_use or request.user_info.username in settings.trusted_controllers:
        return PASSED
    right = await rights.may_use(request.user_info, policy.name, request.namespace)
    if right is Right.ALLOWED:
        return PASSED
    if right is Right.DENIED:
        sentence = _refusal(request.user_info.username, policy, request.namespace)
        return Finding(refusal=Denied(sentence, RefusedBy.RIGHTS))
    if not is_enforcing(subject.scene.profile, subject.scene.enforcement):
        return PASSED
    return Finding(
        refusal=try_again(f"the right to use GPUPolicy {policy.name} could not be checked in time")
    )


def _refusal(username: str, policy: GPUPolicy, namespace: str) -> str:
    """What to tell somebody who may not, and how to come by the right."""
    sentence = (
        f"{username} may not use GPUPolicy {policy.name} in namespace {namespace}, which GPU pods here need: "
        f"ask an administrator for the verb use on gpupolicies.gpu-tenure.io/{policy.name} "
        f"(ClusterRole gpu-tenure-policy-user)."
    )
    return with_contact(sentence, policy.contact)
