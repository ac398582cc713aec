"""Whether the API server reaches the webhook, trusts it, and does without it as the profile says; pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from certs.bundle import decoded, read_certificates
from cli.doctor.admission_objects import Configuration, Webhook
from cli.doctor.facts import Canary, Facts
from cli.doctor.findings import Finding, Level, fine, some
from policy.counting import counted
from policy.keys import Enforcement, Label, enforcement_of
from policy.profile import Profile

FAIL, IGNORE = "Fail", "Ignore"
GATE: Final = "validate.gpu-tenure.io"
"""The one webhook that GPU pods may have to wait for."""
SOON: Final = timedelta(days=14)
RENEW: Final = (
    "look at the logs of gpu-tenure-certs, or of cert-manager; with tls.source=secret make a new Secret, and"
    " put its CA beside the old one in tls.caBundle (docs/certificates.md)"
)
NO_BUNDLE: Final = "has no caBundle"
BARE: Final = "GPU pods get no terms and no deadline; under enforce they are refused while /validate is away"
WITHOUT: Final = "GPU pods are admitted without terms and deadlines, and nothing is refused"
REACH: Final = (
    "kubectl get endpointslices -A -l kubernetes.io/service-name=gpu-tenure-webhook shows whether replicas"
    " are ready; gpu-tenure certs inspect whether they are trusted; and a NetworkPolicy or firewall may stand"
    " between the API server and port 8443 of the pods"
)


def check(facts: Facts) -> Iterator[Finding]:
    """Goes from configurations over certificates to a GPU pod that is only tried."""
    again = f"{facts.upgrade} makes it again"
    for name, seen in (("zz-gpu-tenure", facts.mutating), ("gpu-tenure", facts.validating)):
        if seen.hidden:
            continue
        if seen.value is None or not seen.value.webhooks:
            what = f"the webhook configuration {name} is missing"
            yield Finding("admission.configurations", Level.ERROR, what, WITHOUT, again, (name,))
        else:
            yield fine("admission.configurations", f"the webhook configuration {name} is there")
    yield from _bundles(facts)
    yield from _trust(facts)
    yield from _policies(facts)
    yield from _certificates(facts)
    yield from _endpoints(facts)
    yield _canary(facts)


def _webhooks(facts: Facts) -> list[Webhook]:
    return [*_of(facts.mutating.value), *_of(facts.validating.value)]


def _of(configuration: Configuration | None) -> tuple[Webhook, ...]:
    return (configuration.webhooks or ()) if configuration is not None else ()


def _bundles(facts: Facts) -> Iterator[Finding]:
    webhooks = _webhooks(facts)
    bare = [one.name for one in webhooks if not one.client_config.ca_bundle]
    if bare:
        trusted = not facts.by_service and _reached(facts.canary)
        what = "webhooks have no caBundle: the API server trusts public CAs alone"
        todo = (
            "gpu-tenure certs ensure writes them, or look at the logs of gpu-tenure-certs; with"
            " tls.source=secret set tls.caBundle, with cert-manager look at its CA injector"
        )
        yield Finding(
            "admission.bundles", Level.INFO if trusted else Level.ERROR, what, BARE, todo, some(bare)
        )
    elif webhooks:
        yield fine("admission.bundles", "every webhook has a caBundle")


def _trust(facts: Facts) -> Iterator[Finding]:
    """CAs that have ended, or will; in our own keeping they are renewed long before."""
    ends = {one.name: _end(one) for one in _webhooks(facts) if one.client_config.ca_bundle}
    ended = [name for name, end in ends.items() if end is None or end <= facts.at]
    soon = [name for name, end in ends.items() if end is not None and end <= facts.at + SOON]
    if ended:
        what = "caBundles hold no CA that can be read and is valid"
        yield Finding("admission.trust", Level.ERROR, what, BARE, RENEW, some(ended))
    elif soon:
        what = f"every CA of these caBundles ends within {SOON.days} days"
        yield Finding("admission.trust", Level.WARNING, what, f"afterwards: {BARE}", RENEW, some(soon))
    elif ends:
        yield fine(
            "admission.trust", f"every caBundle holds a CA that is valid for {SOON.days} days and more"
        )


def _end(webhook: Webhook) -> datetime | None:
    """When the last CA of its caBundle ends; None if none can be read."""
    found = read_certificates(decoded(webhook.client_config.ca_bundle))
    return max((one.not_after for one in found), default=None)


def _policies(facts: Facts) -> Iterator[Finding]:
    strict = [one.name for one in _webhooks(facts) if one.failure_policy == FAIL and one.name != GATE]
    gate = next((one for one in _of(facts.validating.value) if one.name == GATE), None)
    enforced = facts.profile is Profile.ENFORCE
    if gate is not None and gate.failure_policy == FAIL and not enforced:
        strict.append(gate.name)
    if strict:
        yield Finding(
            "admission.failure-policy",
            Level.ERROR,
            f"webhooks fail closed, which the profile {facts.profile.value} does not ask for",
            "pods and workloads cannot be created while the webhook is away",
            f"{facts.upgrade} makes it again",
            some(strict),
        )
    if gate is not None and gate.failure_policy != FAIL and enforced:
        yield Finding(
            "admission.failure-policy",
            Level.WARNING,
            f"{GATE} fails open, although the profile is enforce",
            "while the webhook is away, quotas, images and rights are not checked",
            f"{facts.upgrade} once more: a first installation fails open; or webhook.failClosed=true",
            (GATE,),
        )
    elif gate is not None and not strict:
        yield fine("admission.failure-policy", f"failure policies are those of profile {facts.profile.value}")


def _certificates(facts: Facts) -> Iterator[Finding]:
    found = facts.certificates.value
    if found is None:
        return
    problems = [one for one in found.problems if not one.endswith(NO_BUNDLE)]
    for problem in problems:
        yield Finding(
            "admission.certificates",
            Level.ERROR,
            problem,
            "the API server refuses the webhook's certificate, which is as if the webhook were away",
            f"certs would do next: {found.next_step} ({found.reason}); look at the logs of gpu-tenure-certs,"
            " or run gpu-tenure certs ensure",
        )
    if not problems:
        yield fine("admission.certificates", "every caBundle trusts the CA of the serving certificate")


def _endpoints(facts: Facts) -> Iterator[Finding]:
    if facts.endpoints.value is None or not facts.by_service or not _webhooks(facts):
        return
    ready = sum(one.ready for one in facts.endpoints.value)
    if ready:
        take = "takes" if ready == 1 else "take"
        yield fine("admission.endpoints", f"{counted(ready, 'replica')} of the webhook {take} requests")
    else:
        what = "no replica of the webhook takes requests"
        yield Finding("admission.endpoints", Level.ERROR, what, BARE, REACH)


def _reached(canary: Canary) -> bool:
    return Label.POLICY in canary.labels or _refused_by_us(canary)


def _refused_by_us(canary: Canary) -> bool:
    return ".gpu-tenure.io" in canary.message and "denied the request" in canary.message


def _canary(facts: Facts) -> Finding:
    canary = facts.canary
    check, where = "admission.canary", canary.namespace
    if _reached(canary):
        said = f", and it was refused: {canary.message}" if canary.message else " and gave it terms"
        return fine(check, f"the API server called the webhook for a GPU pod in {where}{said}")
    if canary.status == HTTPStatus.CREATED:
        return _unseen(facts)
    if "failed calling webhook" in canary.message and "gpu-tenure.io" in canary.message:
        what = f"GPU pods are refused, because the webhook gives no answer: {canary.message}"
        todo = f"{REACH}. To let pods in now: docs/break-glass.md"
        return Finding(check, Level.ERROR, what, "no GPU pod can be created", todo)
    if "cannot create resource" in canary.message:
        what = f"whether the API server reaches the webhook is not known: you may not create pods in {where}"
        todo = "name a namespace where you may: --canary-namespace; the pod is only tried, never made"
    else:
        what = f"a GPU pod could not be tried in {where}: {canary.message or 'no answer'}"
        todo = "name another namespace: --canary-namespace"
    return Finding(
        check, Level.UNKNOWN, what, "a working webhook and a dead one look alike from outside", todo
    )


def _unseen(facts: Facts) -> Finding:
    """The pod was let in, and nobody gave it terms."""
    where = facts.canary.namespace
    labels = {one.metadata.name: one.metadata.labels for one in facts.namespaces.value or ()}.get(where)
    check = "admission.canary"
    if where in facts.excluded or enforcement_of(labels) is Enforcement.DISABLED:
        what = f"namespace {where} is left alone, so a GPU pod in it tells nothing"
        return Finding(check, Level.UNKNOWN, what, "", "name another one: --canary-namespace")
    what = f"the API server admits a GPU pod in {where} without calling the webhook: it fails open"
    return Finding(check, Level.ERROR, what, WITHOUT, REACH)
