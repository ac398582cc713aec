"""The verdicts and their reasons, shared by log, Event and metric; knows nothing of how they are reached."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class VerdictKind(StrEnum):
    """What is known of a pod's use of its devices."""

    ACTIVE = "Active"
    IDLE = "Idle"
    UNKNOWN = "Unknown"
    SKIPPED = "Skipped"


class Reason(StrEnum):
    """Why a verdict is what it is, or why a pod was left alone."""

    # Active
    ABOVE_THRESHOLD = "AboveThreshold"
    RECENT_KERNEL = "RecentKernel"
    MEMORY_HELD = "MemoryHeld"
    # Idle
    BELOW_THRESHOLD = "BelowThreshold"
    NEVER_TOUCHED = "NeverTouched"
    # Unknown
    NO_SERIES = "NoSeries"
    PARTIAL_DEVICES = "PartialDevices"
    LOW_COVERAGE = "LowCoverage"
    STALE = "Stale"
    SIGNALS_DISAGREE = "SignalsDisagree"
    SHARED_DEVICE = "SharedDevice"
    GARBAGE_SAMPLES = "GarbageSamples"
    FROZEN_EXPORTER = "FrozenExporter"
    DEVICE_FAULT = "DeviceFault"
    INTERVAL_UNKNOWN = "IntervalUnknown"
    MEMORY_UNKNOWN = "MemoryUnknown"
    UNREADABLE_DEVICES = "UnreadableDevices"
    UNSUPPORTED_SOURCE = "UnsupportedSource"
    TOO_YOUNG = "TooYoung"
    NOT_STARTED = "NotStarted"
    CLOCKS_DIFFER = "ClocksDiffer"
    SEVERAL_CLUSTERS = "SeveralClusters"
    PROMETHEUS_UNAVAILABLE = "PrometheusUnavailable"
    PARTIAL_ANSWER = "PartialAnswer"
    GARBAGE_ANSWER = "GarbageAnswer"
    # Skipped: not judged at all
    EXEMPT = "Exempt"
    OPTED_OUT = "OptedOut"
    EXCLUDED = "Excluded"
    FINISHED = "Finished"
    TERMINATING = "Terminating"
    PLACEHOLDER = "Placeholder"
    NO_TERMS = "NoTerms"
    POLICY_MISSING = "PolicyMissing"
    POLICY_INVALID = "PolicyInvalid"
    NAMESPACE_UNKNOWN = "NamespaceUnknown"
    # Skipped: judged idle, and left alone now
    SNOOZED = "Snoozed"
    DRY_RUN = "DryRun"
    OBSERVE_ONLY = "ObserveOnly"
    WARN_ONLY = "WarnOnly"
    PEER_NOT_IDLE = "PeerNotIdle"
    OWNER_RECREATES = "OwnerRecreates"
    NOT_STOPPABLE = "NotStoppable"
    STOP_REVERTED = "StopReverted"
    NOT_CONFIRMED = "NotConfirmed"
    WITHIN_GRACE = "WithinGrace"
    PAUSED = "Paused"
    BRAKE = "Brake"
    QUIET_TIME = "QuietTime"
    OUTSIDE_WINDOW = "OutsideWindow"
    NO_PRESSURE = "NoPressure"
    LIMIT_REACHED = "LimitReached"
    DISRUPTION_BUDGET = "DisruptionBudget"
    BACKING_OFF = "BackingOff"
    NOT_LEADER = "NotLeader"
    CHANGED = "Changed"


REASONS: Final[dict[Reason, str]] = {
    Reason.ABOVE_THRESHOLD: "A signal of a device reached the threshold within the window.",
    Reason.RECENT_KERNEL: "A kernel ran on a device within the window.",
    Reason.MEMORY_HELD: "Utilization is low, but more memory is in use than the terms allow for idle.",
    Reason.BELOW_THRESHOLD: "Every signal of every device stayed below the threshold for the whole window.",
    Reason.NEVER_TOUCHED: "Devices were allocated, and no process has ever used them.",
    Reason.NO_SERIES: "No metrics name this pod.",
    Reason.PARTIAL_DEVICES: "Fewer or more devices were seen than the pod holds.",
    Reason.LOW_COVERAGE: "The window has too few samples to prove anything.",
    Reason.STALE: "The last sample is too old.",
    Reason.SIGNALS_DISAGREE: "One signal says idle and another does not.",
    Reason.SHARED_DEVICE: "The device is shared, and its activity cannot be told apart by pod.",
    Reason.GARBAGE_SAMPLES: "Samples were out of any possible range.",
    Reason.FROZEN_EXPORTER: "Energy, or the time since a kernel, stood still: the exporter is broken.",
    Reason.DEVICE_FAULT: "The device reported an error (Xid or ECC), so its activity counters prove nothing.",
    Reason.INTERVAL_UNKNOWN: "The scrape interval cannot be told from the data.",
    Reason.MEMORY_UNKNOWN: "The terms look at memory, and no metric tells it.",
    Reason.UNREADABLE_DEVICES: "The number of devices that the pod asks for cannot be read.",
    Reason.UNSUPPORTED_SOURCE: "No metrics source is known for these devices.",
    Reason.TOO_YOUNG: "A container has run for less than the window and the warm-up.",
    Reason.NOT_STARTED: "A container that holds devices is not running.",
    Reason.CLOCKS_DIFFER: "Clocks differ, so that nobody can tell which time the data are about.",
    Reason.SEVERAL_CLUSTERS: "Prometheus answers for several clusters, and nobody said which one this is.",
    Reason.PROMETHEUS_UNAVAILABLE: "Prometheus did not answer.",
    Reason.PARTIAL_ANSWER: "Prometheus answered only in part.",
    Reason.GARBAGE_ANSWER: "Prometheus answered something that cannot be read.",
    Reason.EXEMPT: "The pod is exempt, and its policy allows that.",
    Reason.OPTED_OUT: "The namespace is disabled.",
    Reason.EXCLUDED: "The namespace is excluded by configuration.",
    Reason.FINISHED: "The pod has succeeded or failed.",
    Reason.TERMINATING: "The pod is being deleted.",
    Reason.PLACEHOLDER: "The pod has a negative priority: it only keeps a place for others.",
    Reason.NO_TERMS: "The pod was admitted without idle terms.",
    Reason.POLICY_MISSING: "The policy that the pod was admitted under does not exist any more.",
    Reason.POLICY_INVALID: "The policy that the pod was admitted under is invalid.",
    Reason.NAMESPACE_UNKNOWN: "The namespace of the pod has not been seen yet.",
    Reason.SNOOZED: "A user asked to keep the pod for now.",
    Reason.DRY_RUN: "The namespace or the reaper is in dry-run.",
    Reason.OBSERVE_ONLY: "Policy or profile allow observing only.",
    Reason.WARN_ONLY: "Policy or profile allow warning only.",
    Reason.PEER_NOT_IDLE: "Another GPU pod of the same owner is not idle.",
    Reason.OWNER_RECREATES: "The owner recreates its pods, and was acted on already.",
    Reason.NOT_STOPPABLE: "The owner should be stopped, and no way to stop its kind is known or allowed.",
    Reason.STOP_REVERTED: "The owner was stopped before, and something started it again.",
    Reason.NOT_CONFIRMED: "The pod has not been idle in enough cycles in a row.",
    Reason.WITHIN_GRACE: "A warning was given, and its time has not come.",
    Reason.PAUSED: "Warnings and actions are paused.",
    Reason.BRAKE: "Too much changed at once; everything is held.",
    Reason.QUIET_TIME: "The reaper has started or changed its leader a short time ago.",
    Reason.OUTSIDE_WINDOW: "The policy acts at other times.",
    Reason.NO_PRESSURE: "The reaper acts only for waiting pods, and none waits for these devices.",
    Reason.LIMIT_REACHED: "The limit of actions is reached.",
    Reason.DISRUPTION_BUDGET: "A PodDisruptionBudget does not allow the eviction.",
    Reason.BACKING_OFF: "An action failed a short time ago and is tried again later.",
    Reason.NOT_LEADER: "Another replica leads.",
    Reason.CHANGED: "The pod, its owner or its use changed right before the action.",
}
"""What each reason means, in a sentence that logs, Events and documentation show."""
