"""One pod of the demo as a row: what it holds and what became of it. It must not know where the facts come from."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Row:
    """What the demo knows of one pod.

    Attributes:
        namespace: The pod's namespace.
        pod: Its name.
        uid: Its UID; a recreated pod is another row.
        devices: How many devices it holds.
        pod_class: The class that admission derived; empty where admission did not look.
        deadline: The annotation that admission wrote; empty where it did not look.
        verdict: The reaper's last verdict; empty before the first.
        reason: The reason of that verdict.
        next_step: What happens next, as a sentence for the table.
        outcome: evicted, blocked, warned, spared or untouched.
        naive: Whether a mean below 10 % over the last hour would have killed it.
    """

    namespace: str
    pod: str
    uid: str
    devices: int
    pod_class: str = ""
    deadline: str = ""
    verdict: str = ""
    reason: str = ""
    next_step: str = ""
    outcome: str = "untouched"
    naive: bool = False


def with_verdicts(rows: dict[str, Row], verdicts: dict[str, tuple[str, str]]) -> dict[str, Row]:
    """Return the rows (by UID) with the verdict and reason that `verdicts` has for their UID."""
    return {
        uid: replace(row, verdict=verdicts[uid][0], reason=verdicts[uid][1]) if uid in verdicts else row
        for uid, row in rows.items()
    }
