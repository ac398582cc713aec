from __future__ import annotations

import pytest

from policy.keys import (
    DEFAULT_EXCLUDED_NAMESPACES,
    OWN_NAMESPACE,
    REAPER_ONLY,
    TERM_LABELS,
    Annotation,
    Enforcement,
    Label,
    NamespaceLabel,
    enforcement_of,
    short_name,
)
from policy.syntax import is_label_value, is_qualified_name


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(None, Enforcement.ENABLED, id="a namespace without labels is enabled"),
        pytest.param({"team": "a"}, Enforcement.ENABLED, id="an absent label is enabled"),
        pytest.param({NamespaceLabel.ENFORCEMENT: "enabled"}, Enforcement.ENABLED, id="enabled is enabled"),
        pytest.param({NamespaceLabel.ENFORCEMENT: "dry-run"}, Enforcement.DRY_RUN, id="dry-run is dry-run"),
        pytest.param({NamespaceLabel.ENFORCEMENT: "disabled"}, Enforcement.DISABLED, id="disabled opts out"),
        pytest.param(
            {NamespaceLabel.ENFORCEMENT: "Disabled"}, Enforcement.DRY_RUN, id="other case is dry-run"
        ),
        pytest.param({NamespaceLabel.ENFORCEMENT: ""}, Enforcement.DRY_RUN, id="an empty value is dry-run"),
    ],
)
def test_enforcement(labels: dict[str, str] | None, expected: Enforcement) -> None:
    """A value that nobody knows never enforces, and never opts out."""
    assert enforcement_of(labels) is expected


def test_keys_are_valid_and_distinct() -> None:
    """The API server takes every key of ours."""
    keys = [*Label, *Annotation, *NamespaceLabel]
    assert all(is_qualified_name(key) for key in keys)
    assert len({*Label, *Annotation}) == len(Label) + len(Annotation)
    assert set(TERM_LABELS) == set(Label) - {Label.POLICY, Label.CLASS}
    assert set(REAPER_ONLY) <= set(Annotation)
    assert OWN_NAMESPACE in DEFAULT_EXCLUDED_NAMESPACES


def test_short_names() -> None:
    """Only our own prefix is taken away."""
    assert short_name(Label.IDLE_AFTER) == "idle-after"
    assert short_name("gpu-eviction-policy") == "gpu-eviction-policy"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        pytest.param("", True, id="an empty value is valid"),
        pytest.param("500Mi", True, id="a quantity is valid"),
        pytest.param("5%", False, id="a percent sign is not"),
        pytest.param("a" * 63, True, id="63 characters are valid"),
        pytest.param("a" * 64, False, id="64 characters are not"),
        pytest.param("-a", False, id="a leading dash is not"),
        pytest.param("a\n", False, id="a trailing line break is not"),
        pytest.param("A-b_c.9", True, id="dashes, underscores and dots within are valid"),
        pytest.param("a.", False, id="a dot at the end is not"),
        pytest.param("a/b", False, id="a slash is not"),
        pytest.param("\u00e4", False, id="a letter beyond ASCII is not"),
    ],
)
def test_label_values(text: str, valid: bool) -> None:
    """Label values follow the API server's syntax."""
    assert is_label_value(text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        pytest.param("app", True, id="a name without prefix is valid"),
        pytest.param("gpu-tenure.io/policy", True, id="a name with prefix is valid"),
        pytest.param("/policy", False, id="an empty prefix is not"),
        pytest.param("a/b/c", False, id="two slashes are not"),
        pytest.param("A.io/x", False, id="an upper-case prefix is not"),
        pytest.param("", False, id="nothing is not"),
    ],
)
def test_qualified_names(text: str, valid: bool) -> None:
    """Keys follow the API server's syntax."""
    assert is_qualified_name(text) is valid
