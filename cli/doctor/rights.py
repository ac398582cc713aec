"""Whether each component's account has the rights that the component uses; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine, some
from cli.doctor.reading import NO_RIGHTS

EFFECTS: Final = {
    "webhook": "without them it cannot follow policies and namespaces, and admits pods without terms",
    "reaper": "without them it judges less than there is, or cannot warn, evict or stop",
    "quota": "without them ledgers are not counted, and GPU pods of namespaces with quotas are made to wait",
    "certs": "without them certificates end, and the API server cannot reach the webhook any more",
}
MAY_NOT_ASK: Final = "let somebody with `create` on subjectaccessreviews.authorization.k8s.io run it"


def check(facts: Facts) -> Iterator[Finding]:
    """Names missing rights, one finding for each component."""
    for component, seen in facts.rights.items():
        name = f"rights.{component}"
        if seen.value is None:
            why = "you may not ask for the rights of others" if seen.hidden == NO_RIGHTS else seen.hidden
            what = f"the rights of the components are not known: {why}"
            yield Finding(
                "rights.asking", Level.UNKNOWN, what, "the checks on rights were left out", MAY_NOT_ASK
            )
            return
        if seen.value:
            lacks = "a right" if len(seen.value) == 1 else f"{len(seen.value)} rights"
            what = f"the account gpu-tenure-{component} lacks {lacks} that the component uses"
            todo = (
                f"helm upgrade with the chart of version {facts.version} makes its roles and bindings anew;"
                " or apply install.yaml again"
            )
            yield Finding(name, Level.ERROR, what, EFFECTS[component], todo, some(map(str, seen.value)))
        else:
            yield fine(name, f"the account gpu-tenure-{component} has every right that the component uses")
