"""Reads what `kubectl get pods -o json` prints, item by item; knows nothing of GPUs."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from policy.errors import FieldError
from policy.objects import Namespace, Pod


class _List(Struct):
    """A List or PodList, or one object; items are decoded one by one, to keep only what is read."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _Kind(Struct):
    kind: str = "Pod"


class PodList(Struct):
    """Pods, and the labels of those namespaces that were listed with them."""

    pods: list[Pod]
    namespaces: dict[str, dict[str, str]]


def read_bytes(path: Path, errors: list[FieldError]) -> bytes:
    """The content of a file, or of standard input for `-`."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        errors.append(FieldError("--pods", f"cannot read {path}: {error.strerror}"))
        return b""


def read_pods(data: bytes, errors: list[FieldError]) -> PodList:
    """Decodes a list of kind List or PodList, or a single pod; what cannot be read goes to `errors`."""
    found = PodList([], {})
    try:
        top = msgspec.json.decode(data, type=_List)
    except msgspec.DecodeError as error:
        hint = "must be what `kubectl get pods -A -o json` prints"
        errors.append(FieldError("--pods", f"{hint} ({error})" if data.strip() else f"{hint}, is empty"))
        return found
    if top.items is None and top.kind != "Pod":
        errors.append(
            FieldError("--pods", f"must be a list of pods, is {top.kind or 'no Kubernetes object'}")
        )
        return found
    items = [msgspec.Raw(data)] if top.items is None else top.items
    pods, kinds = msgspec.json.Decoder(Pod), msgspec.json.Decoder(_Kind)
    spaces = msgspec.json.Decoder(Namespace)
    for index, item in enumerate(items):
        try:
            kind = kinds.decode(item).kind
            if kind == "Pod":
                found.pods.append(pods.decode(item))
            elif kind == "Namespace":
                meta = spaces.decode(item).metadata
                found.namespaces[meta.name or ""] = meta.labels or {}
        except msgspec.DecodeError as error:
            errors.append(FieldError(f"--pods: items[{index}]", str(error)))
    return found
