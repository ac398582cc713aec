"""The errors of the contract: values, without an idea of who shows them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class FieldError(Struct, frozen=True, order=True):
    """One thing that is wrong at one place, such as `spec.idle.after: must be a duration such as 90m`."""

    path: str
    message: str

    def __str__(self) -> str:
        """The path and the message, or the message alone where there is no path."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def under(self, prefix: str) -> FieldError:
        """The same error, seen from an object that holds this one at `prefix`."""
        if not self.path:
            return FieldError(prefix, self.message)
        joint = "" if self.path.startswith("[") else "."
        return FieldError(f"{prefix}{joint}{self.path}", self.message)


class FormatError(ValueError):
    """One value cannot be read; whoever knows its place turns this into a FieldError."""


class InvalidError(ValueError):
    """An object is invalid; `errors` holds everything that was found, never only the first."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors: tuple[FieldError, ...] = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))
