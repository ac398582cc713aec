"""Every default number of the design, in one table; decides nothing, and knows no settings."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# The idle terms of each class, where a policy says nothing.
INTERACTIVE_AFTER: Final = "2h"
BATCH_AFTER: Final = "2h"
SERVING_AFTER: Final = "24h"
GRACE: Final = "30m"
WARM_UP: Final = "30m"
UTILIZATION_PERCENT: Final = 5

# Deadlines and what users may ask for, where a policy says nothing.
DEADLINE: Final = "7d"
DEADLINE_MAX: Final = "14d"
KEEP_UNTIL: Final = "72h"

# The reaper.
SNOOZE_SECONDS: Final = 24 * 3_600
CYCLE_SECONDS: Final = 60
IDLE_VERDICTS_BEFORE_WARNING: Final = 2
FRESH_SCRAPES: Final = 3
FRESH_SECONDS: Final = 90
COVERAGE: Final = 0.9
ACTIONS_PER_CYCLE: Final = 5
ACTIONS_PER_NAMESPACE: Final = 2
OWNER_PAUSE_SECONDS: Final = 24 * 3_600
HOURLY_SHARE: Final = 0.10
BRAKE_IDLE_SHARE: Final = 0.20
BRAKE_IDLE_DEVICES: Final = 8
BRAKE_IDLE_SECONDS: Final = 15 * 60
BRAKE_UNKNOWN_SHARE: Final = 0.30
BRAKE_FALL_SHARE: Final = 0.20
BRAKE_FALL_SECONDS: Final = 3_600
BRAKE_RELEASE_SECONDS: Final = 15 * 60
QUIET_SECONDS: Final = 10 * 60
RECORDS_KEPT_SECONDS: Final = 30 * 86_400

# The webhook.
MUTATE_TIMEOUT_SECONDS: Final = 2
VALIDATE_TIMEOUT_SECONDS: Final = 2
VALIDATE_WITH_QUOTAS_TIMEOUT_SECONDS: Final = 5
NAMESPACE_WAIT_SECONDS: Final = 0.25


class Default(Struct, frozen=True):
    """One row of the documented table."""

    name: str
    value: str
    meaning: str


DEFAULTS: Final[tuple[Default, ...]] = (
    Default("policy", "observe", "the built-in policy only observes, and sets no deadline"),
    Default("interactive", f"evict after {INTERACTIVE_AFTER}", "idle terms of interactive pods"),
    Default("batch", f"evict after {BATCH_AFTER}", "idle terms of batch pods"),
    Default("serving", f"warn after {SERVING_AFTER}", "idle terms of serving pods, which are never evicted"),
    Default("threshold", f"maximum below {UTILIZATION_PERCENT} %", "what idle means"),
    Default("grace", GRACE, "from the warning to the action"),
    Default("warm-up", WARM_UP, "after a container's start nothing is judged"),
    Default("deadline", f"{DEADLINE}, at most {DEADLINE_MAX}", "where a policy has an empty deadline block"),
    Default("bounds", "the policy's values", "what a user may ask for; exemption never"),
    Default("keepUntil", KEEP_UNTIL, "the longest that snoozes keep a pod after it became idle"),
    Default("snooze", f"{SNOOZE_SECONDS // 3_600}h", "the longest that one snooze lasts from now"),
    Default("cycle", f"{CYCLE_SECONDS}s", "how often the reaper judges"),
    Default("confirmations", f"{IDLE_VERDICTS_BEFORE_WARNING}", "Idle verdicts in a row before a warning"),
    Default(
        "fresh", f"{FRESH_SCRAPES} scrapes, at least {FRESH_SECONDS}s", "the oldest that a last sample may be"
    ),
    Default("coverage", f"{COVERAGE:.0%}", "the share of a window's samples that a verdict needs"),
    Default("actions per cycle", f"{ACTIONS_PER_CYCLE}", "in the whole cluster"),
    Default("actions per namespace", f"{ACTIONS_PER_NAMESPACE}", "in one cycle"),
    Default("actions per owner", f"1 per {OWNER_PAUSE_SECONDS // 3_600}h", "of one root owner"),
    Default(
        "actions per hour",
        f"{HOURLY_SHARE:.0%} of the judged devices",
        "or the largest single candidate, if that is more",
    ),
    Default(
        "brake, idle",
        f"{BRAKE_IDLE_SHARE:.0%}, at least {BRAKE_IDLE_DEVICES}, within {BRAKE_IDLE_SECONDS // 60}m",
        "judged devices that turn idle together hold everything",
    ),
    Default("brake, unknown", f"{BRAKE_UNKNOWN_SHARE:.0%}", "Unknown devices that hold everything"),
    Default(
        "brake, fall",
        f"{BRAKE_FALL_SHARE:.0%} in {BRAKE_FALL_SECONDS // 3_600}h",
        "judged devices that vanish and so hold everything",
    ),
    Default(
        "brake, release", f"{BRAKE_RELEASE_SECONDS // 60}m", "for how long the cause must have been away"
    ),
    Default("quiet time", f"{QUIET_SECONDS // 60}m", "after a start or a change of the leader"),
    Default("records", f"{RECORDS_KEPT_SECONDS // 86_400}d", "for how long a GPUReclaim is kept"),
    Default("mutate time-out", f"{MUTATE_TIMEOUT_SECONDS}s", "how long the API server waits for the patch"),
    Default(
        "validate time-out",
        f"{VALIDATE_TIMEOUT_SECONDS}s, {VALIDATE_WITH_QUOTAS_TIMEOUT_SECONDS}s with quotas",
        "how long the API server waits for the check",
    ),
    Default(
        "namespace wait", f"{NAMESPACE_WAIT_SECONDS * 1000:.0f}ms", "for the watch to show a new namespace"
    ),
)
"""The table as documentation shows it."""
