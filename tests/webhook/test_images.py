"""The images stage: every kind of container, policies, profiles, and images that change later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from webhook.answers import Denied
from webhook.decision import Decision, Outcome
from webhook.images import images_stage
from webhook.review import Request, read_request
from webhook.validation import terms_stage, validate

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

Object = dict[str, Any]
MakePod = Callable[..., Object]
BAD, GOOD = "evil.example/x:1", "reg.example/ml/x:1"


@pytest.fixture
def limited(door: Door) -> Door:
    """A door whose policy allows one registry."""
    return door.policy(images={"allowed": ["reg.example", "python"]}, contact={"text": "the GPU desk"})


def check(door: Door, obj: Object, old: Object | None = None) -> Decision:
    """Runs the validating path; with `old` as an update of it."""
    body = json.loads(door.review(obj))
    body["request"]["oldObject"] = old
    return decide(door, read_request(json.dumps(body).encode()))


def decide(door: Door, request: Request) -> Decision:
    """Decides about a request."""
    stages = (terms_stage(door.memory), images_stage)
    return asyncio.run(validate(request, door.world(), door.settings(), door.memory, stages))


def refusal(decision: Decision) -> str:
    """The sentence of a refusal."""
    assert isinstance(decision.answer, Denied)
    assert (decision.outcome, decision.answer.code) == (Outcome.REFUSED, 403)
    return decision.answer.message


def with_images(pod: MakePod, images: dict[str, str | None], **spec: Any) -> Object:
    """A GPU pod whose containers have these images, by the field and name of each as `field/name`."""
    made = pod(**spec)
    made["spec"]["containers"][0]["image"] = GOOD
    for place, image in images.items():
        field, name = place.split("/")
        if (field, name) == ("containers", "main"):
            made["spec"]["containers"][0]["image"] = image
        elif field == "volumes":
            made["spec"].setdefault(field, []).append({"name": name, "image": {"reference": image}})
        else:
            made["spec"].setdefault(field, []).append({"name": name, "image": image})
    return made


PLACES = {
    "a container": ("containers/main", "container main"),
    "a second container": ("containers/side", "container side"),
    "an init container": ("initContainers/setup", "init container setup"),
    "an ephemeral container": ("ephemeralContainers/debug", "ephemeral container debug"),
    "a volume made from an image": ("volumes/models", "volume models"),
}


@pytest.mark.parametrize(("place", "named"), PLACES.values(), ids=PLACES)
def test_every_image_of_a_gpu_pod_is_compared(limited: Door, pod: MakePod, place: str, named: str) -> None:
    """One that is not allowed refuses the pod, and is named; an allowed one passes at the same place."""
    assert check(limited, with_images(pod, {place: GOOD})).allowed
    sentence = refusal(check(limited, with_images(pod, {place: BAD})))
    assert sentence == (
        f"GPUPolicy default does not allow the image of {named} (evil.example/x:1). "
        "GPU pods may use images from: reg.example, python. Questions: the GPU desk."
    )


@pytest.mark.parametrize(
    ("image", "why"),
    [
        pytest.param("reg.example.evil.test/x", "reg.example.evil.test/x:latest", id="a longer registry"),
        pytest.param("team/python", "docker.io/team/python:latest", id="a name of somebody else"),
        pytest.param("reg.example:5000/x", "reg.example:5000/x:latest", id="another port"),
        pytest.param("x@y", "'x@y' has a digest that is none", id="no reference"),
        pytest.param(None, "none is named", id="no image"),
    ],
)
def test_defaults_are_told_in_full(limited: Door, pod: MakePod, image: str | None, why: str) -> None:
    """People see which registry their short name stands for."""
    assert f"container main ({why})" in refusal(check(limited, with_images(pod, {"containers/main": image})))


def test_many_images_are_told_in_a_few_words(limited: Door, pod: MakePod) -> None:
    """Three of them, and how many more."""
    images: dict[str, str | None] = {f"containers/c{number}": BAD for number in range(9)}
    sentence = refusal(check(limited, with_images(pod, images)))
    assert sentence.count("evil.example") == 3
    assert "6 more" in sentence


@pytest.mark.parametrize("profile", [Profile.OBSERVE, Profile.WARN])
def test_only_enforcement_refuses(limited: Door, pod: MakePod, profile: Profile) -> None:
    """Elsewhere the same sentence is a warning."""
    limited.profile = profile
    decision = check(limited, with_images(pod, {"containers/main": BAD}))
    assert decision.allowed
    assert any("would be refused: GPUPolicy default does not" in warning for warning in decision.warnings)


def test_dry_run_namespaces_only_warn(limited: Door, pod: MakePod) -> None:
    """Also under enforce."""
    limited.namespace_labels = {"gpu-tenure.io/enforcement": "dry-run"}
    decision = check(limited, with_images(pod, {"containers/main": BAD}))
    assert decision.allowed
    assert any("would be refused" in warning for warning in decision.warnings)


def test_pods_without_gpus_use_what_they_like(limited: Door, pod: MakePod) -> None:
    """Images are limited for GPU pods alone."""
    made = pod(0)
    made["spec"]["containers"][0]["image"] = BAD
    assert check(limited, made).outcome is Outcome.NOT_GPU


@pytest.mark.parametrize(("allowed", "admitted"), [(None, True), ([], False)], ids=["left out", "empty"])
def test_no_list_and_an_empty_list(door: Door, pod: MakePod, allowed: Any, admitted: bool) -> None:
    """No list limits nothing; an empty one allows nothing."""
    door.policy(images={"allowed": allowed})
    assert check(door, with_images(pod, {"containers/main": GOOD})).allowed is admitted


@pytest.mark.parametrize("sub_resource", ["", "ephemeralcontainers"])
@pytest.mark.parametrize(("image", "allowed"), [(GOOD, True), (BAD, False)], ids=["allowed", "not allowed"])
def test_an_image_that_changes_is_compared(
    limited: Door, pod: MakePod, sub_resource: str, image: str, allowed: bool
) -> None:
    """A pod's images can be changed, and ephemeral containers added, while it runs."""
    limited.operation, limited.sub_resource = "UPDATE", sub_resource
    place = "ephemeralContainers/debug" if sub_resource else "containers/main"
    decision = check(limited, with_images(pod, {place: image}), with_images(pod, {}))
    assert decision.allowed is allowed
    assert not decision.missing


def test_what_was_admitted_once_stays(limited: Door, pod: MakePod) -> None:
    """A pod from before the policy may get a debugging container; only that is compared."""
    limited.operation, limited.sub_resource = "UPDATE", "ephemeralcontainers"
    old = with_images(pod, {"containers/main": BAD})
    changed = {"containers/main": BAD, "ephemeralContainers/debug": GOOD}
    assert check(limited, with_images(pod, changed), old).allowed
    renamed = {"containers/main": BAD, "ephemeralContainers/debug": BAD}
    assert "ephemeral container debug" in refusal(check(limited, with_images(pod, renamed), old))


@pytest.mark.parametrize("sub_resource", ["status", "binding", "resize"])
def test_other_updates_are_not_looked_at(limited: Door, pod: MakePod, sub_resource: str) -> None:
    """The configuration never sends them; should one come, it passes."""
    limited.operation, limited.sub_resource = "UPDATE", sub_resource
    assert check(limited, with_images(pod, {"containers/main": BAD}), pod()).outcome is Outcome.NOT_CREATE
