"""Image references and what a policy allows of them: the parsing of runtimes, and no tricks with prefixes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import FormatError
from policy.images import ALLOWED, Image, is_allowed, parse_allowed, parse_image

SHA = "sha256:" + "a" * 64
OTHER_SHA = "sha256:" + "b" * 64
CRD = Path(__file__).parents[2] / "manifests" / "chart" / "templates" / "crds" / "gpupolicies.yaml"

PARSED = {
    "a single word is an official image": ("nginx", Image("docker.io", "library/nginx", "latest")),
    "a tag is kept": ("nginx:1.27", Image("docker.io", "library/nginx", "1.27")),
    "two words are of Docker Hub": ("team/x", Image("docker.io", "team/x", "latest")),
    "Docker Hub may be named": ("docker.io/nginx", Image("docker.io", "library/nginx", "latest")),
    "Docker Hub has another name": ("index.docker.io/nginx", Image("docker.io", "library/nginx", "latest")),
    "localhost is a registry": ("localhost/x", Image("localhost", "x", "latest")),
    "a port makes a registry": ("reg:5000/a/b", Image("reg:5000", "a/b", "latest")),
    "registries have no case": ("REG.example.com/a", Image("reg.example.com", "a", "latest")),
    "a port belongs to the registry": ("a.example:443/x", Image("a.example:443", "x", "latest")),
    "an IPv6 address is a registry": ("[::1]:5000/x", Image("[::1]:5000", "x", "latest")),
    "a digest leaves no default tag": (f"x@{SHA}", Image("docker.io", "library/x", None, SHA)),
    "tag and digest are both kept": (f"x:1@{SHA}", Image("docker.io", "library/x", "1", SHA)),
    "a dot in a single word makes no registry": ("ex.com", Image("docker.io", "library/ex.com", "latest")),
}

UNREADABLE = {
    "nothing": "",
    "an upper-case image": "Nginx",
    "a registry by nothing but an upper-case letter": "Reg/a",
    "an empty tag": "x:",
    "two slashes": "a//b",
    "a slash in front": "/a",
    "a slash at the end": "a/",
    "a short digest": "x@sha256:1",
    "a URL": "https://a/b",
    "a space": "a b",
    "a line break": "nginx\n",
    "two tags": "x:y:z",
    "two digests": f"x@{SHA}@{SHA}",
    "a registry that ends with a dot": "docker.io./x",
    "a dot-dot": "a.example/../x",
    "only a digest's hexadecimal": "a" * 64,
    "a letter of another script": "r\u0435gistry.example/x",
    "too long a name": "a/" + "b" * 300,
    "too long a text": "a" * 2000,
}


@pytest.mark.parametrize(("text", "image"), PARSED.values(), ids=PARSED)
def test_references_are_read_as_runtimes_read_them(text: str, image: Image) -> None:
    """Defaults are filled in, and the whole spelling means the same."""
    assert parse_image(text) == image
    assert parse_image(str(image)) == image


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_what_no_runtime_pulls_is_no_reference(text: str) -> None:
    """It is refused where images are limited, since it matches nothing."""
    with pytest.raises(FormatError):
        parse_image(text)


ALLOWED_CASES = {
    "a registry": ("reg.example", "reg.example/a/b:1", True),
    "a registry does not cover its subdomains": ("reg.example", "x.reg.example/a", False),
    "nor what begins like it": ("reg.example", "reg.example.attacker.test/a", False),
    "nor another port": ("reg.example", "reg.example:5000/a", False),
    "nor its name as a repository": ("reg.example", "other.example/reg.example/a", False),
    "a registry with a port": ("reg.example:5000", "reg.example:5000/a", True),
    "a registry without a dot ends with a slash": ("reg:5000/", "reg:5000/a/b", True),
    "a registry in upper case": ("REG.example", "reg.example/a", True),
    "a repository": ("reg.example/ml", "reg.example/ml", True),
    "what is below it": ("reg.example/ml", "reg.example/ml/x/y:3", True),
    "not what begins like it": ("reg.example/ml", "reg.example/ml-evil/x", False),
    "not what joins on": ("reg.example/ml", "reg.example/mlx", False),
    "a slash leaves the repository itself out": ("reg.example/ml/", "reg.example/ml", False),
    "a slash covers what is below": ("reg.example/ml/", "reg.example/ml/x", True),
    "a star is as good as a slash": ("reg.example/ml/*", "reg.example/ml/x", True),
    "the whole of Docker Hub": ("docker.io", "team/x", True),
    "official images": ("docker.io/library", "nginx", True),
    "official images are not the users'": ("docker.io/library", "team/nginx", False),
    "one official image": ("python", "docker.io/library/python:3.12", True),
    "one official image is no user": ("python", "python/x", False),
    "a user of Docker Hub": ("docker.io/team/", "team/x", True),
    "a user of Docker Hub without the registry": ("team/", "team/x", True),
    "a tag": ("python:3.12", "python:3.12", True),
    "another tag": ("python:3.12", "python:3.13", False),
    "no tag is latest": ("python:latest", "python", True),
    "a digest hides behind the tag": ("python:3.12", f"python:3.12@{SHA}", False),
    "a digest": (f"python@{SHA}", f"python@{SHA}", True),
    "a digest under any tag": (f"python@{SHA}", f"python:3.12@{SHA}", True),
    "another digest": (f"python@{SHA}", f"python@{OTHER_SHA}", False),
    "a tag where a digest is asked for": (f"python@{SHA}", "python:3.12", False),
    "a tag is of its repository alone": ("reg.example/a:1", "reg.example/a/b:1", False),
}


@pytest.mark.parametrize(("entry", "image", "expected"), ALLOWED_CASES.values(), ids=ALLOWED_CASES)
def test_entries_cover_parts_and_not_beginnings(entry: str, image: str, expected: bool) -> None:
    """Registry, repository, tag and digest are compared one by one."""
    assert is_allowed(parse_image(image), [entry]) is expected
    assert is_allowed(parse_image(image), ["unrelated.example", entry]) is expected


@pytest.mark.parametrize(
    "text",
    ["", "*", "a b", "https://a.example", "*.example", "a.example/*/b", "a.example//", "x:y:z", "a/../b"],
)
def test_entries_that_mean_nothing_are_errors(text: str) -> None:
    """No half-understood pattern ever allows anything."""
    with pytest.raises(FormatError, match="such as registry"):
        parse_allowed(text)
    assert not is_allowed(parse_image("a.example/b"), [text])


def test_nothing_is_allowed_by_an_empty_list() -> None:
    """A list that names nothing names nothing."""
    assert not is_allowed(parse_image("nginx"), [])


def test_the_definition_has_the_same_expression() -> None:
    """What the API server accepts is what can be read."""
    assert f"self.matches(r'^({ALLOWED})$')" in CRD.read_text()


component = st.from_regex(r"[a-z0-9]{1,5}([._-][a-z0-9]{1,4})?", fullmatch=True)
registry = st.from_regex(r"[a-z]{1,5}\.[a-z]{2,4}(:[0-9]{2,4})?", fullmatch=True)
path = st.lists(component, min_size=1, max_size=3).map("/".join)
references = st.one_of(
    path,
    st.builds("{}/{}".format, registry, path),
    st.builds("{}/{}:{}".format, registry, path, component),
    st.builds("{}/{}@{}".format, registry, path, st.just(SHA)),
)


@given(text=st.one_of(references, st.text(max_size=20), st.text("aA0./:@-_*[]", max_size=20)))
def test_whatever_is_read_is_read_again(text: str) -> None:
    """The whole spelling is stable, and nothing but FormatError is raised."""
    try:
        image = parse_image(text)
    except FormatError:
        return
    assert parse_image(str(image)) == image
    assert image.registry == image.registry.lower()
    assert is_allowed(image, [str(image)])
    assert is_allowed(image, [f"{image.registry}/"])


@given(text=st.one_of(references, st.text("aA0./:@-_*[]", max_size=20)), image=references)
def test_an_entry_allows_only_within_its_own_words(text: str, image: str) -> None:
    """Whatever the entry, what it allows has its registry, and its repository word by word."""
    try:
        entry = parse_allowed(text)
    except FormatError:
        assert not re.fullmatch(ALLOWED, text)
        return
    found = parse_image(image)
    if entry.allows(found):
        assert found.registry == entry.registry
        words = entry.repository.split("/") if entry.repository else []
        assert found.repository.split("/")[: len(words)] == words


@given(host=registry, name=path, more=st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True))
def test_no_ending_slips_past_a_name(host: str, name: str, more: str) -> None:
    """Letters glued to a registry or a repository make another one."""
    entry = f"{host}/{name}"
    assert is_allowed(parse_image(f"{entry}/{more}"), [entry])
    assert not is_allowed(parse_image(f"{entry}{more}/x"), [entry])
    assert not is_allowed(parse_image(f"{more}{entry}"), [entry])
    assert not is_allowed(parse_image(f"{host.partition(':')[0]}.{more}/{name}"), [entry])
