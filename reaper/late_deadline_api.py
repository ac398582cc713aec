"""Reads and writes what late deadlines need, on the API server; decides nothing."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import quote

from msgspec import Struct

from policy.deadline import DeadlineNote
from policy.keys import Annotation
from policy.resourcequota import ResourceQuota, is_scoped
from policy.resources import BUILT_IN_TABLE, ResourceTable
from reaper.act import Written, written_of
from reaper.late_deadlines import DatedJob
from reaper.pods import GpuPod
from reaper.stops import asks_for_gpus
from runtime.kube import MERGE_PATCH, ApiError, ApiUnreachable, KubePort


class LateDeadlinePort(Protocol):
    """Gives deadlines; tests implement it."""

    async def scoped_quota(self, namespace: str) -> bool:
        """True if a quota counts GPUs of pods with or without deadline only; raises as requests do."""
        ...

    async def job_of(self, pod: GpuPod) -> DatedJob | None:
        """Gives the Job that controls a pod; None if there is none any more; raises as requests do."""
        ...

    async def give_pod(self, pod: GpuPod, seconds: int) -> Written:
        """Writes the deadline of a pod."""
        ...

    async def give_job(self, namespace: str, job: DatedJob, seconds: int) -> Written:
        """Writes the deadline of a Job."""
        ...


class _Quotas(Struct, frozen=True):
    items: tuple[ResourceQuota, ...] = ()


class KubeLateDeadlines:
    """The LateDeadlinePort on the API server."""

    def __init__(self, client: KubePort, table: ResourceTable = BUILT_IN_TABLE) -> None:
        self._client = client
        self._table = table

    async def scoped_quota(self, namespace: str) -> bool:
        """True if a quota counts GPUs of pods with or without deadline only; raises as requests do."""
        found = await self._client.get(f"/api/v1/namespaces/{namespace}/resourcequotas", _Quotas)
        return any(is_scoped(quota, self._table) for quota in found.items)

    async def job_of(self, pod: GpuPod) -> DatedJob | None:
        """Gives the Job that controls a pod; None if no such one makes GPU pods; raises as requests do."""
        owner = pod.owner
        if owner is None or (owner.group, owner.kind) != ("batch", "Job"):
            return None
        try:
            answer = await self._client.request("GET", _job_path(pod.namespace, owner.name))
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        job = answer.decode(DatedJob)
        # Anybody may make a pod that names somebody else's Job, which then is none of ours.
        own = asks_for_gpus(answer.decode(dict[str, Any]), "spec.template", self._table)
        return job if own and job.metadata.uid == owner.uid else None

    async def give_pod(self, pod: GpuPod, seconds: int) -> Written:
        """Writes the deadline of a pod."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        return await self._patch(path, pod.uid, pod.resource_version, seconds)

    async def give_job(self, namespace: str, job: DatedJob, seconds: int) -> Written:
        """Writes the deadline of a Job."""
        meta = job.metadata
        path = _job_path(namespace, meta.name or "")
        return await self._patch(path, meta.uid or "", meta.resource_version or "", seconds)

    async def _patch(self, path: str, uid: str, version: str, seconds: int) -> Written:
        metadata: dict[str, Any] = {
            "uid": uid,
            "resourceVersion": version,
            "annotations": {Annotation.DEADLINE.value: DeadlineNote.INJECTED.value},
        }
        body = {"metadata": metadata, "spec": {"activeDeadlineSeconds": seconds}}
        try:
            await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            # A conflict only means that somebody wrote in between: the next cycle looks again.
            return Written.FAILED if error.status == 409 else written_of(error)
        except ApiUnreachable:
            return Written.FAILED
        return Written.WRITTEN


def _job_path(namespace: str, name: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs/{quote(name, safe='')}"
