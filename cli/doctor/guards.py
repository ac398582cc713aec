"""Whether the guards are in force, as the profile says, and fit the API server's types; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine, some
from policy.profile import Profile

PREFIX: Final = "gpu-tenure-guard-"
ALWAYS: Final = frozenset({"namespaces", "selectors"})
"""Guards that refuse under every profile."""
EFFECTS: Final = {
    "bindings": "whoever may bind pods can change their terms",
    "jobs": "whoever may change Jobs can raise or remove their deadlines",
    "namespaces": "whoever may change a namespace can opt it out, or choose its policy and quota",
    "pods": "whoever may change pods can change their terms, or what the reaper wrote",
    "queues": "whoever may change what waits in Kueue can raise its limit",
    "reaper": "whoever has the reaper's token can change more than its actions need",
    "requesters": "people can hold GPUs in other people's names",
    "selectors": "a selector with a key of ours would make pods without end when a term is clamped",
}
"""Every guard but `bypass`, which can be switched off, with what happens without it."""
ENFORCED: Final = frozenset({"queues"})
"""Guards that are there only where deadlines are written."""
BYPASS: Final = f"{PREFIX}bypass"
DENY, WARN, AUDIT = "Deny", "Warn", "Audit"


def actions(guard: str, profile: Profile) -> frozenset[str]:
    """Gives the actions that the binding of a guard has under a profile."""
    if guard in ALWAYS or profile is not Profile.OBSERVE:
        return frozenset({DENY})
    return frozenset({WARN, AUDIT})


def wanted(profile: Profile) -> tuple[str, ...]:
    """Gives the guards that a profile has, whatever else is chosen."""
    return tuple(one for one in EFFECTS if one not in ENFORCED or profile is Profile.ENFORCE)


def check(facts: Facts) -> Iterator[Finding]:
    """Looks at policies, bindings and types."""
    if facts.guards.value is not None:
        yield from _present(facts, {one.metadata.name or "" for one in facts.guards.value})
        yield from _types(facts)
    if facts.bindings.value is not None:
        yield from _bindings(facts)


def _present(facts: Facts, known: set[str]) -> Iterator[Finding]:
    missing = [guard for guard in wanted(facts.profile) if PREFIX + guard not in known]
    todo = f"{facts.upgrade} makes it again"
    for guard in missing:
        what = f"the guard {PREFIX}{guard} is missing"
        yield Finding("guards.policies", Level.ERROR, what, EFFECTS[guard], todo, (PREFIX + guard,))
    if not missing:
        yield fine("guards.policies", f"all {len(wanted(facts.profile))} guards are there")
    if BYPASS not in known:
        why = "nobody is told of pods that reach GPUs without asking for them, past quotas and terms"
        yield Finding(
            "guards.bypass", Level.INFO, "the guard against bypasses is off", why, "bypass.action=warn"
        )


def _bindings(facts: Facts) -> Iterator[Finding]:
    found = {
        one.spec.policy_name: frozenset(one.spec.validation_actions or ())
        for one in facts.bindings.value or ()
    }
    there = None if facts.guards.value is None else {one.metadata.name for one in facts.guards.value}
    todo = f"{facts.upgrade} makes it again"
    wrong = False
    for guard in wanted(facts.profile):
        name, right = PREFIX + guard, actions(guard, facts.profile)
        if there is not None and name not in there:
            pass  # said of the guard itself
        elif name not in found:
            what = f"the guard {name} is not in force: it has no binding"
            yield Finding("guards.bindings", Level.ERROR, what, EFFECTS[guard], todo, (name,))
        elif found[name] != right:
            level = Level.ERROR if DENY in right and DENY not in found[name] else Level.WARNING
            what = f"the guard {name} does {_text(found[name])}, and the profile asks for {_text(right)}"
            yield Finding("guards.bindings", level, what, EFFECTS[guard], todo, (name,))
        wrong = wrong or found.get(name) != right
    if not wrong:
        yield fine("guards.bindings", f"all guards do what the profile {facts.profile.value} says")


def _text(some_actions: frozenset[str]) -> str:
    return ", ".join(sorted(some_actions)) or "nothing"


def _types(facts: Facts) -> Iterator[Finding]:
    odd = {one.metadata.name or "": one.warnings for one in facts.guards.value or () if one.warnings}
    for name, warnings in odd.items():
        what = f"expressions of the guard {name} do not fit the API server's types"
        why = "where an expression errs, the guard lets pass or refuses, by its failure policy"
        todo = (
            "tell us, with the Kubernetes version; kubectl get validatingadmissionpolicy has the whole text"
        )
        yield Finding("guards.types", Level.WARNING, what, why, todo, some(warnings))
    if not odd:
        yield fine("guards.types", "the API server finds no fault with the types in the guards")
