"""Label values as the API server takes them."""

from __future__ import annotations

import pytest

from policy.syntax import is_label_value


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        pytest.param("", True, id="the empty value"),
        pytest.param("a", True, id="one letter"),
        pytest.param("A-b_c.9", True, id="dashes, underscores and dots within"),
        pytest.param("a" * 63, True, id="63 characters"),
        pytest.param("a" * 64, False, id="64 characters"),
        pytest.param("-a", False, id="a dash in front"),
        pytest.param("a.", False, id="a dot at the end"),
        pytest.param("a/b", False, id="a slash"),
        pytest.param("a\n", False, id="a line break at the end"),
        pytest.param("\u00e4", False, id="a letter beyond ASCII"),
    ],
)
def test_label_values(text: str, fits: bool) -> None:
    """Also at the edges of the length."""
    assert is_label_value(text) is fits
