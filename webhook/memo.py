"""Remembers the results of pure functions within bounds; knows nothing of what they compute."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Result = TypeVar("Result")


def _one() -> int:
    """The size where only the number counts."""
    return 1


class Memo(Generic[Result]):
    """Results by key; where arguments cannot be hashed, they are compared by identity and kept alive.

    `limit` is the sum of the sizes of what is remembered, in whatever unit whoever asks gives them: anybody
    may send objects as large as the API server takes. When full it forgets everything: simpler than choosing,
    and one miss is cheap.

    The thread for large objects asks it beside the event loop, without a lock: then a result may be computed
    twice, and the sum be off by one entry until everything is forgotten the next time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._results: dict[Hashable, tuple[tuple[object, ...], Result]] = {}

    def get(
        self,
        key: Hashable,
        same: tuple[object, ...],
        compute: Callable[[], Result],
        measure: Callable[[], int] = _one,
    ) -> Result:
        """The result for `key` and the very objects in `same`, computed if it is not remembered.

        `measure` gives the size of both; it is asked only then.
        """
        # An id is unique only while its object lives, which the entry sees to.
        full_key = (key, *map(id, same))
        found = self._results.get(full_key)
        if found is not None:
            return found[1]
        result, size = compute(), measure()
        if size > self._limit:
            return result
        if self._size + size > self._limit:
            self._results.clear()
            self._size = 0
        self._size += size
        self._results[full_key] = (same, result)
        return result

    def __len__(self) -> int:
        """How many results are remembered."""
        return len(self._results)
