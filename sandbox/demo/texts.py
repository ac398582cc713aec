"""What the narrator of the demo says. It must not know how any of it is done."""

ACTS = {
    1: (
        "A cluster",
        "A real API server, scheduler, controllers, Prometheus and Alertmanager on loopback.",
        "Kubelets and GPUs are simulated.",
    ),
    2: (
        "At the door",
        "Everybody creates their pods as ever. The webhook writes deadline and idle terms.",
        "What it changed is said by kubectl.",
    ),
    3: (
        "Idle is measured",
        "Prometheus gets 65 minutes of history in the exporters' shapes; the reaper starts.",
        "Shortened for the demo: cycle 3 s (60 s), quiet time 3 s (10 min), grace 45 s (30 min).",
        "Widened: 60 % of the devices an hour (10 %). The policy `services` is short altogether.",
    ),
    4: (
        "Between warning and eviction",
        "Somebody returns to notebook-1. The reaper is restarted.",
        "Prometheus dies while the evictions fall due.",
    ),
    5: (
        "The webhook is dead",
        "Both replicas are killed. The profile is `enforce`: GPU pods, and only they, wait for the webhook.",
    ),
    6: ("What became of them", "Every pod is compared to the table of expected outcomes."),
    7: ("Look around", "Everything goes on until Ctrl-C is pressed here. In another terminal:"),
}
HISTORY_MINUTES = 65

WARNED = "the idle notebooks are warned first, with the time of the eviction"
SPARED = "notebook-1 is busy again: its warning is withdrawn"
HOLDS = "Prometheus is gone: the reaper holds"
DUE = "the time of notebook-2's eviction passes"
HELD = "nothing was evicted meanwhile, and it was said once"
EVICTED = "Prometheus is back: notebook-0 and notebook-2 are evicted; the restart forgot nothing"
BLOCKED = "a PodDisruptionBudget refuses the eviction of `protected`"
RECREATED = "web-gpu was evicted once; the pod that its Deployment made is warned and kept"
CPU_CREATED = "a CPU pod is created as ever, in {seconds:.2f} s with kubectl"
GPU_REFUSED = "a GPU pod is refused with the reason, as enforce promises (observe and warn would admit it)"
BACK = "the webhook is back: the same pod is admitted"
SUMMARY = (
    "Evicted: {evicted} pods. The mean of the last hour would have killed {wrongly} more:"
    " busy, promised, protected, or part of a running job."
)
