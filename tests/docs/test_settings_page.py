"""The page of settings has every setting of every component, as the code has it."""

from __future__ import annotations

import re

import pytest

from manifests import generate
from runtime.settings import describe


def test_it_is_what_the_code_makes() -> None:
    """Whoever changes a setting runs manifests/generate.py again."""
    text = generate.SETTINGS_PAGE.read_text(encoding="utf-8")
    assert generate.settings_page(text) == text
    assert generate.settings_page(text.replace("GPU_TENURE_QUOTA_SETTLE", "OLD")) == text


@pytest.mark.parametrize("component", list(generate.COMPONENTS))
def test_each_component_has_a_table_with_all_of_its_settings(component: str) -> None:
    """A row of three cells each, with its names, its default and what it means."""
    text = generate.SETTINGS_PAGE.read_text(encoding="utf-8")
    table = text.partition(f"<!-- {component} -->\n")[2].partition("<!-- end -->")[0].splitlines()[2:]
    kind, prefix = generate.COMPONENTS[component]
    rows = describe(kind, prefix)
    assert len(table) == len(rows)
    for line, row in zip(table, rows, strict=True):
        names, default, meaning = re.split(r"(?<!\\) \| ", line.strip("| "))
        assert names == f"`{row.flag}`<br>`{row.variable}`<br>`{row.key}`"
        assert default
        assert meaning.startswith(row.description)
    if component == "reaper":
        assert any("REAPER_PROMETHEUS_URL`<br>`prometheus_url` | required |" in line for line in table)
