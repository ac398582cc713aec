"""Who asked for an object, from who created it."""

from __future__ import annotations

import pytest

from policy.errors import FormatError
from policy.requester import (
    UNKNOWN,
    RequesterSource,
    Said,
    SourcePlace,
    new_requester,
    parse_source,
    requester_of,
)

KEY = "gpu-tenure.io/requested-by"
HUB = "system:serviceaccount:hub:hub"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
SOURCES = (
    RequesterSource(HUB, SourcePlace.LABEL, "hub/user"),
    RequesterSource(HUB, SourcePlace.ANNOTATION, "hub/name"),
    RequesterSource(HUB, SourcePlace.NAMESPACE_ANNOTATION, "owner"),
)


@pytest.mark.parametrize(
    ("username", "said", "requester"),
    [
        pytest.param("dev-a", Said(), "dev-a", id="a person asks for herself"),
        pytest.param("dev-a", Said(annotations={KEY: "dev-b"}), "dev-a", id="whatever the object says"),
        pytest.param("dev-a", Said(annotations={"hub/name": "x"}), "dev-a", id="sources are another's"),
        pytest.param(CONTROLLER, Said(annotations={KEY: "dev-b"}), "dev-b", id="controllers pass on"),
        pytest.param(CONTROLLER, Said(), None, id="or have nothing to pass on"),
        pytest.param(HUB, Said({"hub/user": "a"}, {"hub/name": "b"}), "a", id="the first source counts"),
        pytest.param(HUB, Said({"hub/user": ""}, {"hub/name": "b"}), "b", id="an empty one says nothing"),
        pytest.param(HUB, Said({}, {}, {"owner": "c"}), "c", id="a namespace names its owner"),
        pytest.param(HUB, Said(annotations={KEY: "dev-b"}), None, id="a source that is silent is unknown"),
        pytest.param("", Said(annotations={KEY: "dev-b"}), None, id="a nameless creator is nobody"),
    ],
)
def test_the_requester_of_a_new_object(username: str, said: Said, requester: str | None) -> None:
    """Only trusted controllers and creators that act for others name somebody else."""
    assert new_requester(username, said, (CONTROLLER,), SOURCES) == requester


@pytest.mark.parametrize(
    ("annotations", "requester"),
    [
        pytest.param({KEY: "dev-a"}, "dev-a", id="named"),
        pytest.param({KEY: ""}, UNKNOWN, id="empty"),
        pytest.param({}, UNKNOWN, id="absent"),
        pytest.param(None, UNKNOWN, id="no annotations"),
    ],
)
def test_the_requester_of_a_stored_object(annotations: dict[str, str] | None, requester: str) -> None:
    """Who is not named is unknown."""
    assert requester_of(annotations) == requester


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_source_is_written_as_it_is_read(source: RequesterSource) -> None:
    """The form of the setting."""
    assert parse_source(str(source)) == source


@pytest.mark.parametrize(
    "text",
    ["", "hub", "=label:a", "hub=a", "hub=label:", "hub=pod:a", "hub=label:a b", "hub=annotation:/a"],
)
def test_what_is_no_source_is_refused(text: str) -> None:
    """With the form that is expected."""
    with pytest.raises(FormatError, match="CREATOR=PLACE:KEY"):
        parse_source(text)
