"""Who asked for a GPU object, from who created it; knows no object's kind and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from policy.errors import FormatError
from policy.keys import Annotation
from policy.syntax import is_qualified_name

UNKNOWN: Final = "unknown"
"""How a requester that nobody named is called."""
_KEY: Final = Annotation.REQUESTED_BY.value
SOURCE_FORM: Final = (
    "CREATOR=PLACE:KEY, such as system:serviceaccount:hub:hub=annotation:example.com/username"
)

Texts = Mapping[str, str] | None
"""Labels or annotations."""


class SourcePlace(StrEnum):
    """Where a creator that acts for others says for whom."""

    LABEL = "label"
    ANNOTATION = "annotation"
    NAMESPACE_ANNOTATION = "namespace-annotation"


class RequesterSource(Struct, frozen=True):
    """What `creator` makes is asked for by whoever `key` names: on the object, or on its namespace."""

    creator: str
    place: SourcePlace
    key: str

    def __str__(self) -> str:
        """As a setting spells it."""
        return f"{self.creator}={self.place.value}:{self.key}"


class Said(Struct, frozen=True):
    """The labels and annotations of an object and of its namespace, where sources are looked up."""

    labels: Texts = None
    annotations: Texts = None
    namespace_annotations: Texts = None

    def at(self, source: RequesterSource) -> str | None:
        """What a source says; None, also for an empty text, if nothing."""
        match source.place:
            case SourcePlace.LABEL:
                texts = self.labels
            case SourcePlace.ANNOTATION:
                texts = self.annotations
            case SourcePlace.NAMESPACE_ANNOTATION:
                texts = self.namespace_annotations
        return (texts or {}).get(source.key) or None


def parse_source(text: str) -> RequesterSource:
    """Reads `CREATOR=PLACE:KEY`.

    Raises:
        FormatError: it has another form.
    """
    creator, _, where = text.strip().rpartition("=")
    place, _, key = where.partition(":")
    if not creator or place not in {one.value for one in SourcePlace} or not is_qualified_name(key):
        raise FormatError(f"must be {SOURCE_FORM}; PLACE is one of {', '.join(SourcePlace)}")
    return RequesterSource(creator, SourcePlace(place), key)


def new_requester(
    username: str, said: Said, trusted: Sequence[str], sources: Sequence[RequesterSource]
) -> str | None:
    """The requester to write on a new object, None to write none.

    What trusted controllers make inherits it from the template that it was made from. What a creator that
    acts for others makes has the first of its sources that says anything. All else is asked for by its
    creator, whatever it says itself.
    """
    if username in trusted:
        return (said.annotations or {}).get(_KEY)
    if sources:
        own = [source for source in sources if source.creator == username]
        if own:
            return next(filter(None, map(said.at, own)), None)
    return username or None


def requester_of(annotations: Texts) -> str:
    """The requester that a stored object names, UNKNOWN if it names none."""
    return (annotations or {}).get(_KEY) or UNKNOWN
