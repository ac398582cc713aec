"""Reads parsed JSON or YAML with paths, and collects every error; knows no object in particular."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from policy.errors import FieldError, FormatError

_Value = TypeVar("_Value")


class Node:
    """A value at a path. Reading it never raises: what is wrong goes to the list that all nodes share.

    Null is the same as absent, as the API server has it.
    """

    def __init__(self, value: object, path: str, errors: list[FieldError]) -> None:
        self.value = value
        self.path = path
        self.errors = errors

    def fail(self, message: str) -> None:
        """Notes an error at this place."""
        self.errors.append(FieldError(self.path, message))

    def fields(self, *known: str) -> dict[str, Node]:
        """The fields of an object that are there; every other field than the known ones is an error."""
        if not isinstance(self.value, Mapping):
            self.fail("must be an object")
            return {}
        found: dict[str, Node] = {}
        for key, value in self.value.items():
            node = Node(value, f"{self.path}.{key}" if self.path else str(key), self.errors)
            if key not in known:
                close = difflib.get_close_matches(str(key), known, 1)
                node.fail(f"unknown field, did you mean {close[0]}?" if close else "unknown field")
            elif value is not None:
                found[key] = node
        return found

    def items(self) -> list[Node]:
        """The items of a list."""
        if not isinstance(self.value, list | tuple):
            self.fail("must be a list")
            return []
        return [Node(value, f"{self.path}[{i}]", self.errors) for i, value in enumerate(self.value)]

    def parsed(self, parse: Callable[[Any], _Value]) -> _Value | None:
        """What `parse` makes of the value; its FormatError becomes an error at this place."""
        try:
            return parse(self.value)
        except FormatError as error:
            self.fail(str(error))
            return None

    def parsed_text(self, parse: Callable[[str], _Value]) -> _Value | None:
        """What `parse` makes of a text; it sees the empty text, and must refuse it, for anything else."""
        return self.parsed(lambda value: parse(value if isinstance(value, str) else ""))

    def text(self, longest: int = 253) -> str | None:
        """A text that is not empty and not too long."""
        if not isinstance(self.value, str) or not self.value:
            self.fail("must be a text")
        elif len(self.value) > longest:
            self.fail(f"must have at most {longest} characters")
        else:
            return self.value
        return None

    def integer(self, lowest: int, highest: int) -> int | None:
        """A whole number between two, both included."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            self.fail(f"must be a whole number from {lowest} to {highest}")
            return None
        return value

    def boolean(self) -> bool:
        """True or false; anything else is an error and reads as false."""
        if not isinstance(self.value, bool):
            self.fail("must be true or false")
            return False
        return self.value

    def texts(self, longest: int = 253) -> tuple[str, ...]:
        """A list of texts that are not empty and not too long."""
        return tuple(text for item in self.items() if (text := item.text(longest)) is not None)
