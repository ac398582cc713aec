"""How each kind of owner is stopped, as data: the field to set, the value, what to remember.

Knows no API server and decides nothing. Fields are JSON pointers (RFC 6901): a slash within a key is `~1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from policy.durations import format_time
from policy.errors import FieldError, InvalidError
from policy.keys import KUEUE_PODS, KUEUE_QUEUE_NAME, PREFIX

TIME: Final = "{time}"
"""As a value: the time of the stop."""

LONGEST_FIELD: Final = 253
_POINTER: Final = re.compile(r"/(spec(/[^/]+){1,2}|metadata/annotations/[^/]+)")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
Scalar = bool | int | str


class Way(Struct, frozen=True):
    """How one kind is stopped.

    Attributes:
        group: The API group; empty for the core.
        kind: Such as `JobSet`.
        resource: Its plural, as paths and roles spell it.
        field: What is set, below `/spec` (at most two keys deep) or an annotation.
        value: What it is set to.
        remember: The field whose value from before is given back by `resume`; mostly `field` itself.
    """

    group: str
    kind: str
    resource: str
    field: str
    value: Scalar
    remember: str

    def value_at(self, time: datetime) -> Scalar:
        """Gives the value that is written at a time."""
        return format_time(time) if self.value == TIME else self.value

    def stopped(self, value: object) -> bool:
        """True if the field with this value keeps the owner stopped."""
        if self.value == TIME:
            return isinstance(value, str)
        return type(value) is type(self.value) and value == self.value


REPLICAS: Final = "/spec/replicas"
SUSPEND: Final = "/spec/suspend"
NOTEBOOK_STOPPED: Final = "/metadata/annotations/kubeflow-resource-stopped"
ACTIVE: Final = "/spec/active"


def _way(group: str, kind: str, resource: str, field: str, value: Scalar) -> Way:
    return Way(group, kind, resource, field, value, field)


JOB: Final = _way("batch", "Job", "jobs", SUSPEND, value=True)
WORKLOAD: Final = _way("kueue.x-k8s.io", "Workload", "workloads", ACTIVE, value=False)
"""What Kueue manages is stopped by this object of Kueue's, which also gives its quota back."""

BUILT_IN: Final[tuple[Way, ...]] = (
    JOB,
    _way("apps", "Deployment", "deployments", REPLICAS, 0),
    _way("apps", "ReplicaSet", "replicasets", REPLICAS, 0),
    _way("apps", "StatefulSet", "statefulsets", REPLICAS, 0),
    _way("kubeflow.org", "Notebook", "notebooks", NOTEBOOK_STOPPED, TIME),
    WORKLOAD,
)

GOES_ON: Final = frozenset({("batch", "CronJob")})
"""Owners that only start others, each a run of its own: what they started is stopped, not they."""


class Ways(Struct, frozen=True):
    """The table of one reaper; an empty one stops nothing."""

    rows: tuple[Way, ...] = ()

    def of(self, group: str, kind: str) -> Way | None:
        """Gives the row of a kind."""
        return next((row for row in self.rows if (row.group, row.kind) == (group, kind)), None)


def is_kueue(labels: Mapping[str, str]) -> bool:
    """True if Kueue decides when the pods of an object with these labels run."""
    return any(key in labels for key in (KUEUE_QUEUE_NAME, *KUEUE_PODS))


def ways_of(rows: Iterable[Mapping[str, Any]], path: str = "stopKinds") -> Ways:
    """Gives the built-in table with an administrator's rows before it.

    Raises:
        InvalidError: rows are not of the form that `parse_way` reads.
    """
    parsed, errors = [], []
    for number, row in enumerate(rows):
        try:
            parsed.append(parse_way(row))
        except InvalidError as error:
            errors += [one.under(f"{path}[{number}]") for one in error.errors]
    if errors:
        raise InvalidError(errors)
    return Ways((*parsed, *BUILT_IN))


def parse_way(row: Mapping[str, Any]) -> Way:
    """Reads {apiGroup, kind, resource, field, value[, remember]}.

    Raises:
        InvalidError: with all that is wrong.
    """
    errors = [
        FieldError(key, "is not known; a row has apiGroup, kind, resource, field, value and remember")
        for key in row
        if key not in {"apiGroup", "kind", "resource", "field", "value", "remember"}
    ]
    group = _text(row, "apiGroup", _NAME, "a group such as jobset.x-k8s.io", errors)
    kind = _text(row, "kind", _KIND, "a kind such as JobSet", errors)
    resource = _text(row, "resource", _NAME, "a plural such as jobsets", errors)
    wanted = "a JSON pointer such as /spec/suspend or /metadata/annotations/example.com~1stop"
    field = _text(row, "field", _POINTER, wanted, errors)
    remember = _text({"remember": field or REPLICAS, **row}, "remember", _POINTER, wanted, errors)
    if field.startswith(f"/metadata/annotations/{PREFIX.replace('/', '~1')}"):
        errors.append(FieldError("field", "must not be an annotation of gpu-tenure itself"))
    value = row.get("value")
    if not isinstance(value, bool | int | str):
        errors.append(FieldError("value", "must be true, false, a whole number or a text"))
    elif field.startswith("/metadata") and not isinstance(value, str):
        errors.append(FieldError("value", 'must be a text for an annotation, such as "true" or "{time}"'))
    if errors or not isinstance(value, bool | int | str):
        raise InvalidError(errors)
    return Way(group, kind, resource, field, value, remember)


def _text(
    row: Mapping[str, Any], key: str, form: re.Pattern[str], wanted: str, errors: list[FieldError]
) -> str:
    value = row.get(key)
    if isinstance(value, str) and len(value) <= LONGEST_FIELD and form.fullmatch(value):
        return value
    errors.append(FieldError(key, f"must be {wanted}"))
    return ""


def keys_of(pointer: str) -> list[str]:
    """Gives the keys that a pointer goes through."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def value_in(content: object, pointer: str) -> Any:  # noqa: ANN401 - any JSON value
    """Gives the value at a pointer; None where there is none."""
    for key in keys_of(pointer):
        if not isinstance(content, Mapping):
            return None
        content = content.get(key)
    return content


def patch_of(pointer: str, value: object) -> dict[str, Any]:
    """Gives the merge patch that sets the value at a pointer (None removes it)."""
    patch: Any = value
    for key in reversed(keys_of(pointer)):
        patch = {key: patch}
    return dict(patch)


def merged(*patches: Mapping[str, Any]) -> dict[str, Any]:
    """Gives one merge patch that does what all of these do."""
    found: dict[str, Any] = {}
    for patch in patches:
        for key, value in patch.items():
            before = found.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            found[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return found
