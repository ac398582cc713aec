"""One pod of the demo as a row: what it holds and what became of it; knows not where facts come from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What the demo knows of one pod; a recreated pod is another row.

    Attributes:
        namespace: The pod's namespace.
        pod: Its name.
        devices: How many devices it holds.
        pod_class: The class that admission derived; empty where admission did not look.
        deadline: The annotation that admission wrote; empty where it did not look.
        verdict: The reaper's last verdict on it; empty before the first.
        reason: The reason of that verdict.
        skip: Why it is left alone all the same; empty if it is not.
        parked: Whether it is idle while it holds device memory.
        reclaim_at: When it will be evicted, as announced on the pod; empty without a warning.
        outcome: evicted, blocked, spared, warned or untouched.
        naive: Whether a mean below 10 % over the last hour would have killed it.
    """

    namespace: str
    pod: str
    devices: int
    pod_class: str = ""
    deadline: str = ""
    verdict: str = ""
    reason: str = ""
    skip: str = ""
    parked: bool = False
    reclaim_at: str = ""
    outcome: str = "untouched"
    naive: bool = False


@dataclass(frozen=True)
class Finding:
    """What the reaper last said of one pod."""

    verdict: str
    reason: str
    skip: str
    parked: bool
