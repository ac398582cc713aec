"""Kubernetes' syntax of label keys, label values and names; knows no key of ours."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def is_label_value(text: str) -> bool:
    """Whether the API server takes the text for a label's value (the empty one is)."""
    return not text or _NAME.fullmatch(text) is not None


def is_subdomain(text: str, longest: int = 253) -> bool:
    """Whether the text is a DNS-1123 subdomain of at most so many characters."""
    return len(text) <= longest and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether the API server takes the text for a label's or annotation's key."""
    prefix, slash, name = text.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or is_subdomain(prefix))
