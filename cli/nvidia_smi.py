"""`gpu-tenure judge --nvidia-smi FILE`: cards of nodes without any exporter; reads, prints, never acts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policy.asking import policy_terms
from policy.classes import PodClass
from policy.errors import FieldError, InvalidError
from policy.spec import BUILT_IN
from reaper.nvidia_smi import CardVerdict, judge_cards, read_samples

if TYPE_CHECKING:
    from policy.selection import PolicySet
    from policy.terms import Terms
    from reaper.criteria import JudgeSettings

FLAG = "--nvidia-smi"
STDIN = Path("-")


def report(paths: Sequence[Path], policies: PolicySet, settings: JudgeSettings, *, as_json: bool) -> None:
    """Print what is known of each card of each recording, by the first policy given or by the defaults.

    Raises:
        InvalidError: a file cannot be read, or is no recording; all of them are named.
    """
    terms = _terms(policies)
    errors: list[FieldError] = []
    found: list[tuple[str, CardVerdict]] = []
    for path in paths:
        try:
            samples = read_samples(_lines(path), f"{FLAG} {path}")
        except OSError as error:
            errors.append(FieldError(FLAG, f"cannot read {path}: {error.strerror}"))
        except InvalidError as error:
            errors += error.errors
        else:
            node = "stdin" if path == STDIN else path.stem
            found += [(node, verdict) for verdict in judge_cards(samples, terms, settings)]
    if errors:
        raise InvalidError(errors)
    if as_json:
        print(json.dumps([document(node, card) for node, card in found], indent=2))
    else:
        _show(found, terms)


def document(node: str, card: CardVerdict) -> dict[str, Any]:
    """One verdict as JSON; sizes in bytes, spans in seconds, `maximum` in percent."""
    return {
        "recording": node,
        "card": card.card,
        "name": card.name,
        "verdict": card.kind.value,
        "reason": card.reason.value,
        "samples": card.samples,
        "spanSeconds": card.span,
        "maximum": card.maximum,
        "memoryBytes": card.memory,
    }


def _terms(policies: PolicySet) -> Terms:
    """Those of a batch pod, since nobody knows whose card it is."""
    policy = policies.valid[0] if policies.valid else BUILT_IN
    return policy_terms(policy, PodClass.BATCH)


def _lines(path: Path) -> list[str]:
    data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    return data.decode("utf-8-sig", errors="replace").splitlines()


def _show(found: Sequence[tuple[str, CardVerdict]], terms: Terms) -> None:
    from rich.text import Text

    from cli.printing import console_of, new_table, plain
    from cli.verdict_table import STYLES
    from policy.verdicts import REASONS

    table = new_table()
    for title in ("RECORDING", "CARD", "NAME", "VERDICT", "MAX", "MEMORY", "SAMPLES", "HOW IT IS KNOWN"):
        table.add_column(title, overflow="fold")
    for node, card in found:
        table.add_row(
            plain(node),
            plain(card.card),
            plain(card.name),
            Text(card.kind.value, STYLES[card.kind]),
            "" if card.maximum is None else f"{card.maximum:g} %",
            "" if card.memory is None else f"{card.memory // (1 << 20)}Mi",
            str(card.samples),
            REASONS[card.reason],
        )
    counted = Counter(card.kind.value for _, card in found)
    console = console_of()
    console.print(table)
    console.print(
        f"\n{', '.join(f'{count} {kind}' for kind, count in sorted(counted.items()))}: {terms.describe()}."
    )
    console.print("Cards, not pods: which pod held one is not in a recording.", style="dim")
