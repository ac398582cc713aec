"""GPUQuotas as the API server keeps them: reading one, and writing its ledger by compare-and-swap.

Knows nothing of what fits into a quota, or of who may write what.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from policy.errors import InvalidError
from policy.gpuquota import KIND, GPUQuota, parse_quota
from policy.keys import API_VERSION
from policy.ledger import Ledger
from runtime.answers import ApiError, ApiUnreachable
from runtime.kube import KubePort

QUOTAS_PATH = "/apis/gpu-tenure.io/v1alpha1/gpuquotas"


class StoredQuota(Struct, frozen=True):
    """A quota with its ledger at one resource version.

    `problem` is a sentence if either cannot be read: then `quota` has its name and selects everything.
    """

    quota: GPUQuota
    ledger: Ledger
    version: str
    problem: str | None = None

    @property
    def name(self) -> str:
        """The quota's name."""
        return self.quota.name


class _Metadata(Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""


class _Object(Struct):
    metadata: _Metadata
    spec: Any = None
    status: msgspec.Raw = msgspec.Raw()


class _Write(Struct, rename="camel"):
    metadata: dict[str, str]
    status: Ledger
    api_version: str = API_VERSION
    kind: str = KIND


def read_stored(raw: msgspec.Raw | bytes) -> StoredQuota:
    """Reads a GPUQuota; one that is invalid is kept with its problem, since ignoring it would let all pass.

    Raises:
        msgspec.DecodeError: it is no object of the API.
    """
    stored = msgspec.json.decode(raw, type=_Object)
    metadata, version = stored.metadata, stored.metadata.resource_version
    try:
        quota = parse_quota({"metadata": msgspec.structs.asdict(metadata), "spec": stored.spec})
        ledger = _read_ledger(stored.status)
    except InvalidError as error:
        quota = GPUQuota(metadata.name, metadata.uid, metadata.generation)
        return StoredQuota(quota, Ledger(), version, f"it is invalid: {error}")
    except msgspec.DecodeError as error:
        return StoredQuota(quota, Ledger(), version, f"its status cannot be read: {error}")
    return StoredQuota(quota, ledger, version)


def _read_ledger(raw: msgspec.Raw) -> Ledger:
    """The ledger in a status; an empty one where there is none."""
    if not bytes(raw):
        return Ledger()
    return msgspec.json.decode(raw, type=Ledger | None) or Ledger()


async def fetch_quota(
    client: KubePort,
    name: str,
    timeout: float,  # noqa: ASYNC109 - the limit of one request
) -> StoredQuota | None:
    """Reads a quota past every cache; None if there is none. Raises ApiError or ApiUnreachable."""
    try:
        response = await client.request("GET", f"{QUOTAS_PATH}/{name}", timeout=timeout)
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return _decoded(response.body)


async def write_ledger(
    client: KubePort,
    stored: StoredQuota,
    ledger: Ledger,
    timeout: float,  # noqa: ASYNC109 - as above
) -> StoredQuota:
    """Replaces the ledger if the quota is still as `stored`, and returns it as it is then.

    Raises ApiError (409: somebody else was faster) or ApiUnreachable (it may have been written all the same).
    """
    body = _Write({"name": stored.name, "resourceVersion": stored.version}, ledger)
    response = await client.request("PUT", f"{QUOTAS_PATH}/{stored.name}/status", body=body, timeout=timeout)
    return _decoded(response.body)


def _decoded(body: bytes) -> StoredQuota:
    try:
        return read_stored(body)
    except msgspec.DecodeError as error:
        msg = f"the answer cannot be read: {error}"
        raise ApiUnreachable(msg) from error
