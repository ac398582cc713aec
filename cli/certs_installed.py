"""The settings of an installed `certs watch`, for commands that look after the same certificates.

What was given to the command wins; must not know what the command does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from cli.doctor.objects import Component
from policy.keys import OWN_NAMESPACE
from runtime.kube import ApiError, KubePort
from runtime.listing import Reader, read_list

NAME: Final = "gpu-tenure-certs"
OURS: Final = {"labelSelector": "app.kubernetes.io/name=gpu-tenure,app.kubernetes.io/component=certs"}
FIELDS: Final = (
    "service",
    "names",
    "authority_secret",
    "serving_secret",
    "mutating",
    "validating",
    "ca_life",
    "ca_renew",
    "leaf_life",
    "leaf_renew",
    "settle",
    "probe",
)
"""What is of the certificates, not of the process that keeps them."""
PAGE: Final = 500


class Installed(msgspec.Struct, frozen=True):
    """What was found of the Deployment.

    Attributes:
        namespace: Where it is; empty if it is not known.
        environment: The variables of its process that are of the certificates.
        problem: Why it is not known, in words.
    """

    namespace: str = ""
    environment: dict[str, str] = {}
    problem: str = ""

    def sentence(self, taken: Mapping[str, str]) -> str:
        """Says which settings are those of the installation; `taken` are variables with their values."""
        if self.problem:
            return f"{self.problem}; settings are those given, otherwise defaults"
        what = ", ".join(f"{name}={value}" for name, value in sorted(taken.items()))
        return f"settings of the Deployment {self.namespace}/{NAME}: {what or 'none that were not given'}"


async def read_installed(client: KubePort, namespace: str, prefix: str) -> Installed:
    """Looks for the Deployment, in a namespace or (empty) in all, or in the usual one where all is too much.

    Raises:
        ApiError: the API server is in trouble.
        ApiUnreachable: it did not answer.
    """
    found: list[Component] = []
    within = f"/namespaces/{namespace}" if namespace else ""
    try:
        reader = Reader(f"/apis/apps/v1{within}/deployments", _component)
        _, entries = await read_list(client, reader, OURS, PAGE)
        found = [entry.value for entry in entries.values()]
    except ApiError as error:
        if error.status not in {401, 403, 404}:
            raise
        if not namespace:
            return await read_installed(client, OWN_NAMESPACE, prefix)
        return Installed(problem=f"Deployments are not readable with your rights ({error.status})")
    where = f"the namespace {namespace}" if namespace else "any namespace"
    if len(found) != 1:
        told = "there is no Deployment" if not found else f"there are {len(found)} Deployments"
        return Installed(problem=f"{told} {NAME} in {where}")
    variables = {f"{prefix}{field.upper()}" for field in FIELDS}
    kept = {name: value for name, value in found[0].environment.items() if name in variables}
    return Installed(found[0].metadata.namespace or "", kept)


def _component(raw: msgspec.Raw) -> Component | None:
    one = msgspec.json.decode(raw, type=Component)
    return one if one.name == NAME else None
