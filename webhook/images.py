"""Checks the images of a GPU pod against its policy; pure, and knows nothing of what registries hold."""

from __future__ import annotations

from collections.abc import Iterator

from policy.errors import FormatError
from policy.images import is_allowed, parse_image
from policy.objects import PodSpec
from policy.spec import GPUPolicy
from webhook.answers import Denied, RefusedBy, with_contact
from webhook.stages import PASSED, Checked, Finding

SHOWN = 3
"""How many images and entries a sentence names."""

Place = tuple[str, str]
"""What runs an image, as `container main`, and the reference as written."""


async def images_stage(checked: Checked) -> Finding:
    """Refuses a pod with an image that its policy does not allow.

    Of a pod that exists only images that are new are looked at: what was admitted once stays.
    """
    request = checked.subject.request
    old = request.old_object.spec if request.old_object is not None else None
    sentence = image_refusal(checked.pod.spec, checked.subject.selected.policy, old)
    return PASSED if sentence is None else Finding(refusal=Denied(sentence, RefusedBy.IMAGES))


def image_refusal(spec: PodSpec, policy: GPUPolicy, old: PodSpec | None = None) -> str | None:
    """A sentence about the images of a specification that a policy does not allow; None if there are none."""
    allowed = policy.images.allowed
    if allowed is None:
        return None
    known = frozenset(places_of(old)) if old is not None else frozenset()
    found = [
        f"{place} ({why})"
        for place, image in places_of(spec)
        if (place, image) not in known and (why := _why_not(image, allowed)) is not None
    ]
    if not found:
        return None
    sources = ", ".join(_few(allowed)) or "nothing"
    sentence = (
        f"GPUPolicy {policy.name} does not allow the image of {', '.join(_few(found))}. "
        f"GPU pods may use images from: {sources}."
    )
    return with_contact(sentence, policy.contact)


def places_of(spec: PodSpec) -> Iterator[Place]:
    """Every image of a pod: of containers of all kinds, and of volumes made from images."""
    for containers, kind in (
        (spec.init_containers, "init container"),
        (spec.containers, "container"),
        (spec.ephemeral_containers, "ephemeral container"),
    ):
        for container in containers or ():
            yield f"{kind} {container.name}", container.image or ""
    for volume in spec.volumes or ():
        if volume.image is not None and volume.image.reference:
            yield f"volume {volume.name}", volume.image.reference


def _why_not(image: str, allowed: tuple[str, ...]) -> str | None:
    """The image in full if no entry covers it, or what is wrong with it; None if it is allowed."""
    try:
        parsed = parse_image(image)
    except FormatError as error:
        return f"{image[:80]!r} {error}" if image else "none is named"
    return None if is_allowed(parsed, allowed) else str(parsed)


def _few(texts: list[str] | tuple[str, ...]) -> list[str]:
    """The first of some texts, and how many were left out."""
    more = len(texts) - SHOWN
    return [*texts[:SHOWN], *([f"{more} more"] if more > 0 else [])]
