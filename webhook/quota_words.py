"""Words what quotas say to people: refusals with numbers and holders, hints, warnings; decides nothing."""

from __future__ import annotations

from policy.ledger import Ask, Fits, Short, show_amount
from policy.objects import OwnerReference
from policy.resourcequota import Room
from webhook.answers import Denied, RefusedBy
from webhook.warnings import MAX_CHARACTERS

SURGE_HINT = (
    "A rolling update needs room for its surge: set maxSurge to 0 and maxUnavailable to 1 in its strategy."
)

UNHEARD = "GPUQuotas cannot be read at present, and one that is new might count this pod"


def refused(quota: str, short: Short, controller: OwnerReference | None) -> Denied:
    """The pod does not fit: what is held of what, what is asked, and by whom it is held."""
    asked = show_amount(short.asked)
    sentences = [
        f"GPUQuota {quota}{_for(short.subject)} has {_of(short)} in use, and this pod asks for {asked}."
    ]
    if short.asked > short.hard:
        sentences.append("It can never fit.")
    elif short.holders:
        sentences.append(f"Held by {'; '.join(short.holders)}.")
    if controller is not None and controller.kind == "ReplicaSet":
        sentences.append(SURGE_HINT)
    return Denied(" ".join(sentences), RefusedBy.QUOTA)


def refused_by_room(room: Room, asked: int) -> Denied:
    """A ResourceQuota is full: the API server would refuse the pod after us, so nothing is reserved."""
    return Denied(
        f"{room.kind} {room.name} has {room.used} of {room.hard} {room.resource} in use, "
        f"and this pod asks for {asked}.",
        RefusedBy.RESOURCE_QUOTA,
    )


def broken(quota: str, problem: str) -> Denied:
    """The quota itself is wrong, which only an administrator can change."""
    sentence = f"GPUQuota {quota} cannot be applied, an administrator has to repair it: {problem}"
    return Denied(sentence, RefusedBy.QUOTA)


def nearly_full(quota: str, fits: Fits) -> str:
    """A remark on a pod that was let in."""
    return f"GPUQuota {quota}{_for(fits.subject)} is nearly full: {fits.text} in use"


def would_wait(unheard: str) -> str:
    """A remark where nothing is refused, on a pod that a quota might be about."""
    return f"would have to wait: {unheard}"


def over(quota: str, short: Short, ask: Ask) -> str:
    """A remark where nothing is refused."""
    text = f"would be refused: GPUQuota {quota}{_for(short.subject)} has {_of(short)} in use"
    longer = f"{text}; {ask.name} asks for {show_amount(short.asked)}"
    return longer if len(longer) <= MAX_CHARACTERS else text


def _for(subject: str) -> str:
    """Whose limit it is, if it is not everybody's."""
    return "" if subject == "*" else f" for {subject}"


def _of(short: Short) -> str:
    """What is held of what."""
    return f"{show_amount(short.used)} of {show_amount(short.hard)} {short.limit}"
