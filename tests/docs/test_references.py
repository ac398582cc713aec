"""What the documents point to exists: files, tests, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = {".venv", "node_modules", ".git", ".pytest_cache", ".hypothesis"}
DOCUMENTS = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED.intersection(path.relative_to(ROOT).parts)
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST_FILE = re.compile(r"`(tests/[\w/]+\.py)`(?: \(`(\w+)`\))?")
ANCHOR = re.compile(r"[^\w\- ]")


def named(path: Path) -> str:
    """The name of a document as the id of its test."""
    return path.relative_to(ROOT).as_posix()


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {ANCHOR.sub("", heading.lower()).replace(" ", "-") for heading in plain}


def broken(document: Path) -> Iterator[str]:
    """Links inside the repository that lead nowhere."""
    for target in LINK.findall(document.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            yield target


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_link_leads_somewhere(document: Path) -> None:
    """To a file of the repository, and to a heading in it."""
    assert list(broken(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_test_that_is_named_exists(document: Path) -> None:
    """The file, and in it the function where one is named."""
    for file, function in TEST_FILE.findall(document.read_text()):
        assert (ROOT / file).is_file(), file
        assert not function or f"def {function}(" in (ROOT / file).read_text(), function


def test_the_threat_model_names_a_test_for_every_threat() -> None:
    """Each row of its table."""
    rows = re.findall(r"^\| \*\*.*$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert len(rows) >= 20
    for row in rows:
        assert TEST_FILE.search(row), row
