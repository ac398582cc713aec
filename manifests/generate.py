"""Writes what is made from tables and settings in the code: CEL, rules, docs/resources.md, docs/settings.md.

`python manifests/generate.py` writes; with `--check` it only says what differs, and exits 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402 - the script runs from anywhere

from certs.settings import ENV_PREFIX as CERTS_PREFIX  # noqa: E402 - the script runs from anywhere
from certs.settings import CertsSettings  # noqa: E402 - as above
from policy.cel import name_test  # noqa: E402 - as above
from policy.cel_templates import OBJECT, inherited  # noqa: E402 - as above
from policy.resource_rules import ResourceRule  # noqa: E402 - as above
from policy.resources import TABLE  # noqa: E402 - as above
from policy.vendors import KAI_ANNOTATIONS, MIG_PROFILES  # noqa: E402 - as above
from policy.workloads import JOB, WORKLOADS  # noqa: E402 - as above
from quota.settings import ENV_PREFIX as QUOTA_PREFIX  # noqa: E402 - as above
from quota.settings import QuotaSettings  # noqa: E402 - as above
from reaper import long_windows  # noqa: E402 - as above
from reaper.exporters import SOURCES  # noqa: E402 - as above
from reaper.settings import ENV_PREFIX as REAPER_PREFIX  # noqa: E402 - as above
from reaper.settings import ReaperSettings  # noqa: E402 - as above
from runtime.settings import Row, describe  # noqa: E402 - as above
from webhook.settings import ENV_PREFIX as WEBHOOK_PREFIX  # noqa: E402 - as above
from webhook.settings import WebhookSettings  # noqa: E402 - as above

CHART_FILE: Final = ROOT / "manifests" / "chart" / "templates" / "_gpu_names.tpl"
INHERITED_FILE: Final = ROOT / "manifests" / "chart" / "templates" / "guards" / "_inherited.tpl"
RULES: Final = ROOT / "manifests" / "chart" / "files" / "rules" / "long-windows.yaml"
PAGE: Final = ROOT / "docs" / "resources.md"
SETTINGS_PAGE: Final = ROOT / "docs" / "settings.md"
COMPONENTS: Final = {
    "webhook": (WebhookSettings, WEBHOOK_PREFIX),
    "reaper": (ReaperSettings, REAPER_PREFIX),
    "quota": (QuotaSettings, QUOTA_PREFIX),
    "certs": (CertsSettings, CERTS_PREFIX),
}


def chart_file() -> str:
    """The template with the built-in names."""
    annotations = ", ".join(f'"{key}"' for key in KAI_ANNOTATIONS)
    return (
        "{{/* Written by manifests/generate.py from the table in policy/vendors.py: change that. */}}\n\n"
        "{{/* Whether the variable `name` is a built-in name of a GPU resource. */}}\n"
        '{{- define "gpu-tenure.cel.isBuiltInGPUName" -}}\n'
        f"{name_test(TABLE)}\n"
        "{{- end }}\n\n"
        "{{/* Annotations that ask for a part of a card, as a JSON list. */}}\n"
        '{{- define "gpu-tenure.gpuAnnotations" -}}\n'
        f"[{annotations}]\n"
        "{{- end }}\n"
    )


def inherited_file() -> str:
    """The template with the places whose annotations pods inherit."""
    return (
        "{{/* Written by manifests/generate.py from the table in policy/workloads.py: change that. */}}\n\n"
        "{{/* What carries annotations that pods inherit, as its metadata. Argument: the object. */}}\n"
        '{{- define "gpu-tenure.cel.inherited" -}}\n'
        f"{inherited((JOB, *WORKLOADS)).replace(OBJECT, '{{ . }}')}\n"
        "{{- end }}\n"
    )


def rules_file() -> str:
    """The recording rules for long windows."""
    groups = {"groups": long_windows.groups(SOURCES)}
    text = yaml.safe_dump(groups, sort_keys=False, width=1000)
    return f"# Written by manifests/generate.py from the tables in reaper/exporters.py: change those.\n{text}"


def page(text: str) -> str:
    """The page with its tables renewed."""
    names = _table(("name", "vendor", "unit", "weight", "describes"), map(_row, TABLE))
    profiles = _table(
        ("names", "weight"), ((_code(pattern), str(weight)) for pattern, weight in MIG_PROFILES)
    )
    return _filled(_filled(text, "names", names), "profiles", profiles)


def settings_page(text: str) -> str:
    """The page of settings with the table of each component renewed."""
    for name, (kind, prefix) in COMPONENTS.items():
        rows = map(_setting, describe(kind, prefix))
        text = _filled(text, name, _table(("flag, variable, key", "default", "meaning"), rows))
    return text


def _setting(row: Row) -> tuple[str, ...]:
    """One row of a table of settings."""
    names = "<br>".join(map(_code, (row.flag, row.variable, row.key)))
    such_as = f". Example: {_code(row.example)}" if row.example not in {"", row.default} else ""
    default = row.default if row.default in {"required", "none", ""} else _values(row.default)
    return names, default or "none", f"{row.description}{such_as}"


def _values(default: str) -> str:
    """A default; several names apart, so that a line can be broken between them."""
    return ", ".join(map(_code, default.split(",")))


def _filled(text: str, mark: str, table: str) -> str:
    """The text with a table between a mark and the next end."""
    begin, end = f"<!-- {mark} -->\n", "<!-- end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}{table}{end}", text)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _row(rule: ResourceRule) -> tuple[str, ...]:
    """One row of the table of names."""
    describes = f"{_code(rule.of)}{', each' if rule.each else ''}" if rule.of else ""
    return _code(rule.pattern), rule.vendor, rule.unit, _weight(rule), describes


def _weight(rule: ResourceRule) -> str:
    """What a unit weighs."""
    if not rule.unit.counts:
        return ""
    return "by profile" if rule.profiles else str(rule.weight_of(rule.examples[0]))


def _code(text: str) -> str:
    """Text as code in a table."""
    return f"`{text}`".replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Writes the files, or says which differ."""
    files = (CHART_FILE, INHERITED_FILE, RULES, PAGE, SETTINGS_PAGE)
    before = {path: path.read_text(encoding="utf-8") if path.exists() else "" for path in files}
    after = {
        CHART_FILE: chart_file(),
        INHERITED_FILE: inherited_file(),
        RULES: rules_file(),
        PAGE: page(before[PAGE]),
        SETTINGS_PAGE: settings_page(before[SETTINGS_PAGE]),
    }
    differing = [path for path, text in after.items() if text != before[path]]
    for path in differing:
        if "--check" in arguments:
            sys.stderr.write(f"{path.relative_to(ROOT)} differs: run python manifests/generate.py\n")
        else:
            path.write_text(after[path], encoding="utf-8")
    return int(bool(differing)) if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
