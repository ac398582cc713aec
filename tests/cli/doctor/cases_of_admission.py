"""What can be wrong at the door: facts, check, level, and words of its todo."""

from __future__ import annotations

from certs.inspection import Inspection
from cli.doctor.facts import Canary, Seen
from policy.profile import Profile
from tests.cli.doctor.healthy import (
    authority,
    bindings,
    configuration,
    guards,
    healthy,
    slices,
)
from tests.cli.doctor.wrong import (
    ERROR,
    INFO,
    UNKNOWN,
    WARNING,
    Case,
    refused,
)

OF_ADMISSION: list[Case] = [
    ("no configuration", healthy(mutating=Seen()), "admission.configurations", ERROR, "helm upgrade"),
    (
        "no caBundle",
        healthy(mutating=Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), bundle=""))),
        "admission.bundles",
        ERROR,
        "certs ensure",
    ),
    (
        "a URL with a certificate of a public CA",
        healthy(
            mutating=Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), bundle="", url="https://w")),
            validating=Seen(configuration(("validate.gpu-tenure.io", "Ignore"), url="https://w")),
        ),
        "admission.bundles",
        INFO,
        "tls.caBundle",
    ),
    (
        "a CA that has ended",
        healthy(mutating=Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), bundle=authority(-1)))),
        "admission.trust",
        ERROR,
        "tls.caBundle",
    ),
    (
        "a CA that ends soon",
        healthy(mutating=Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), bundle=authority(9)))),
        "admission.trust",
        WARNING,
        "tls.caBundle",
    ),
    (
        "a caBundle that is none",
        healthy(mutating=Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), bundle="eA=="))),
        "admission.trust",
        ERROR,
        "cert-manager",
    ),
    (
        "mutating fails closed",
        healthy(mutating=Seen(configuration(("mutate.gpu-tenure.io", "Fail")))),
        "admission.failure-policy",
        ERROR,
        "helm upgrade",
    ),
    (
        "validating fails closed without enforce",
        healthy(validating=Seen(configuration(("validate.gpu-tenure.io", "Fail")))),
        "admission.failure-policy",
        ERROR,
        "helm upgrade",
    ),
    (
        "validating fails open under enforce",
        healthy(Profile.ENFORCE, validating=Seen(configuration(("validate.gpu-tenure.io", "Ignore")))),
        "admission.failure-policy",
        WARNING,
        "failClosed",
    ),
    (
        "a CA that nobody trusts",
        healthy(
            certificates=Seen(Inspection((), ("x: trusts only a CA that is not valid now",), "keep", "y"))
        ),
        "admission.certificates",
        ERROR,
        "certs ensure",
    ),
    ("no endpoint", healthy(endpoints=Seen(slices(False))), "admission.endpoints", ERROR, "endpointslices"),
    ("failing open", healthy(canary=Canary("default", 201)), "admission.canary", ERROR, "NetworkPolicy"),
    (
        "failing closed",
        refused('failed calling webhook "validate.gpu-tenure.io": refused', 500),
        "admission.canary",
        ERROR,
        "break-glass",
    ),
    (
        "no right to create pods",
        refused('cannot create resource "pods"'),
        "admission.canary",
        UNKNOWN,
        "--canary",
    ),
    (
        "another webhook refuses",
        refused('webhook "x.example" denied'),
        "admission.canary",
        UNKNOWN,
        "--canary",
    ),
    (
        "a canary in a namespace that is left alone",
        healthy(canary=Canary("kube-system", 201)),
        "admission.canary",
        UNKNOWN,
        "--canary-namespace",
    ),
    (
        "a guard is missing",
        healthy(guards=Seen(guards(Profile.WARN, without="gpu-tenure-guard-pods"))),
        "guards.policies",
        ERROR,
        "helm upgrade",
    ),
    (
        "no guard against bypasses",
        healthy(guards=Seen(guards(Profile.WARN, without="gpu-tenure-guard-bypass"))),
        "guards.bypass",
        INFO,
        "bypass.action",
    ),
    (
        "a binding is missing",
        healthy(bindings=Seen(bindings(Profile.WARN, pods=[]))),
        "guards.bindings",
        ERROR,
        "helm",
    ),
    (
        "a guard that only warns",
        healthy(bindings=Seen(bindings(Profile.WARN, jobs=["Warn"]))),
        "guards.bindings",
        ERROR,
        "helm",
    ),
    (
        "a guard that refuses under observe",
        healthy(Profile.OBSERVE, bindings=Seen(bindings(Profile.OBSERVE, jobs=["Deny"]))),
        "guards.bindings",
        WARNING,
        "helm",
    ),
    (
        "types that do not fit",
        healthy(guards=Seen(guards(Profile.WARN, warning="undefined field"))),
        "guards.types",
        WARNING,
        "tell us",
    ),
]
