"""Image references, parsed as container runtimes parse them, and what a policy allows; knows no pod.

References are compared by their parts, never by how their text begins: `registry.example.com/ml` allows
neither `registry.example.com.attacker.net/ml/x` nor `registry.example.com/mlx/y`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from policy.errors import FormatError

DEFAULT_REGISTRY: Final = "docker.io"
DEFAULT_REPOSITORY_PREFIX: Final = "library/"
DEFAULT_TAG: Final = "latest"
LONGEST_REFERENCE: Final = 1024
_LONGEST_NAME: Final = 255
_ALIASES: Final = {"index.docker.io": DEFAULT_REGISTRY}
_LOCALHOST: Final = "localhost"
_OFFICIAL: Final = "docker.io/library"

_HOST_LABEL: Final = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
HOST: Final = rf"({_HOST_LABEL}(\.{_HOST_LABEL})*|\[[0-9A-Fa-f:]+\])(:[0-9]{{1,5}})?"
"""A registry with or without its port."""
_COMPONENT: Final = "[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
PATH: Final = f"{_COMPONENT}(/{_COMPONENT})*"
"""A repository below its registry."""
TAG: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST: Final = "[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,128}"
ALLOWED: Final = f"({HOST}/[*]?|({HOST}/)?{PATH}(/[*]?|(:{TAG})?(@{DIGEST})?)|{HOST})"
"""What an entry of `images.allowed` looks like; the CustomResourceDefinition has the same expression."""

_HOST: Final = re.compile(HOST)
_PATH: Final = re.compile(PATH)
_TAG: Final = re.compile(TAG)
_DIGEST: Final = re.compile(DIGEST)
_ALLOWED: Final = re.compile(ALLOWED)
_HEXADECIMAL_NAME: Final = re.compile("[a-f0-9]{64}")
_EXAMPLES: Final = "such as registry.example.com, registry.example.com/team or docker.io/library/python:3.12"


class Image(Struct, frozen=True):
    """A reference in its parts: registry in lower case with its port, repository below it, tag or digest.

    A reference without either has the tag `latest`; one with both keeps both, and its digest decides.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        """The whole reference, nothing of it left to defaults."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")


class AllowedImages(Struct, frozen=True):
    """An entry of a policy: a registry, a repository with everything below it, or one tag or digest.

    `repository` None is the whole registry. `below` says that the repository itself is not meant, only those
    below it. With a tag or a digest nothing but the repository itself is meant.
    """

    registry: str
    repository: str | None = None
    below: bool = False
    tag: str | None = None
    digest: str | None = None

    def allows(self, image: Image) -> bool:
        """Whether the entry covers an image.

        A tag is only a name: it covers images without a digest, because a digest beside it decides what
        runs, whatever the tag says.
        """
        if image.registry != self.registry:
            return False
        if self.repository is None:
            return True
        if self.tag is None and self.digest is None:
            is_itself = image.repository == self.repository and not self.below
            return is_itself or image.repository.startswith(f"{self.repository}/")
        if image.repository != self.repository:
            return False
        if self.digest is not None:
            return image.digest == self.digest
        return image.digest is None and image.tag == self.tag


@lru_cache(maxsize=4096)
def parse_image(text: str) -> Image:
    """Reads a reference as container runtimes do.

    Raises:
        FormatError: no runtime could pull it.
    """
    if len(text) > LONGEST_REFERENCE:
        raise FormatError(f"must have at most {LONGEST_REFERENCE} characters")
    rest, tag, digest = _split(text)
    registry, repository = _place(rest)
    if not _HOST.fullmatch(registry) or not _PATH.fullmatch(repository):
        raise FormatError("is not an image reference")
    if _HEXADECIMAL_NAME.fullmatch(rest) or len(registry) + 1 + len(repository) > _LONGEST_NAME:
        raise FormatError("is not the name of an image")
    if tag is None and digest is None:
        tag = DEFAULT_TAG
    return Image(registry, repository, tag, digest)


@lru_cache(maxsize=4096)
def parse_allowed(text: str) -> AllowedImages:
    """Reads an entry of `images.allowed`.

    Without a slash it is a registry if it has a dot or is localhost (`registry.example.com:5000`), else an
    image of Docker Hub (`python:3.12`). A slash, or `/*`, at its end stands for everything below, and makes
    a registry of a name with a port (`registry:5000/`).

    Raises:
        FormatError: it is neither.
    """
    if not _ALLOWED.fullmatch(text):
        raise FormatError(f"must be a registry, a repository or an image, {_EXAMPLES}")
    bare = text.removesuffix("*").removesuffix("/")
    below = bare != text
    if "/" not in bare and (_is_registry(bare) or (below and _names_registry(bare))):
        return AllowedImages(_registry(bare))
    if below or bare == _OFFICIAL:
        registry, repository = _place(bare, official=False)
        return AllowedImages(registry, repository, below=True)
    rest, tag, digest = _split(bare)
    registry, repository = _place(rest)
    return AllowedImages(registry, repository, tag=tag, digest=digest)


def is_allowed(image: Image, allowed: Iterable[str]) -> bool:
    """Whether one of the entries covers an image; an entry that cannot be read covers none."""
    return any(entry.allows(image) for entry in map(_entry, allowed) if entry is not None)


def _entry(text: str) -> AllowedImages | None:
    """An entry, None if it cannot be read."""
    try:
        return parse_allowed(text)
    except FormatError:
        return None


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Name, tag and digest; raises FormatError for a tag or a digest that is none."""
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise FormatError("has a digest that is none")
    slash = name.rfind("/")
    colon = name.find(":", slash + 1)
    if colon < 0:
        return name, None, digest if at else None
    tag = name[colon + 1 :]
    if not _TAG.fullmatch(tag):
        raise FormatError("has a tag that is none")
    return name[:colon], tag, digest if at else None


def _place(name: str, *, official: bool = True) -> tuple[str, str]:
    """Registry and repository of a name: Docker Hub where none is named, its library for a single word."""
    first, slash, rest = name.partition("/")
    if slash and _names_registry(first):
        registry, repository = _registry(first), rest
    else:
        registry, repository = DEFAULT_REGISTRY, name
    if official and registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"{DEFAULT_REPOSITORY_PREFIX}{repository}"
    return registry, repository


def _names_registry(first: str) -> bool:
    """Whether a word before the first slash is a registry, as runtimes have it.

    They also take one with upper-case letters alone; it has no spelling of its own and is read as none.
    """
    return _is_registry(first) or ":" in first


def _is_registry(text: str) -> bool:
    """Whether a word is a registry also where it stands alone, and not an image with its tag."""
    host = text if text.startswith("[") else text.partition(":")[0]
    return "." in host or host == _LOCALHOST or host.startswith("[")


def _registry(text: str) -> str:
    """A registry in its one spelling."""
    lower = text.lower()
    return _ALIASES.get(lower, lower)
