"""What could not be seen, said once for each thing, with the rights that would show it; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine, some
from cli.doctor.reading import NO_RIGHTS

CHECK: Final = "sight.rights"
WHY: Final = "the checks on it were left out"
MORE_RIGHTS: Final = (
    "run it with the rights of an administrator of the cluster, or of the role `view` at least"
)
NO_ANSWER: Final = "run it again; if it stays so, look at the API server"


def check(facts: Facts) -> Iterator[Finding]:
    """Says what may not be read in one finding, and what gave no answer in one each."""
    hidden = {what: why for what, why in facts.all_seen() if why}
    forbidden = [what for what, why in hidden.items() if why == NO_RIGHTS]
    if forbidden:
        what = f"with your rights {len(forbidden)} of the things that are looked at cannot be read"
        yield Finding(CHECK, Level.UNKNOWN, what, WHY, MORE_RIGHTS, some(forbidden))
    else:
        yield fine(CHECK, "everything that is looked at may be read with your rights")
    for what, why in hidden.items():
        if why != NO_RIGHTS:
            yield Finding("sight.answers", Level.UNKNOWN, f"{what}: {why}", WHY, NO_ANSWER)
