"""The kinds that make GPU pods, as data: where their templates lie and which field ends them.

Reads plain JSON values and decides nothing. `*` in a path stands for every item of a list or mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

Path = tuple[str, ...]
"""Keys, and indices of lists as text, from the object to a value."""


class Template(Struct, frozen=True):
    """A place of pod templates.

    It makes at least the product of `counts` pods at once, where each factor is the smallest of the numbers
    at its paths, and 1 where there is none.
    """

    path: str
    counts: tuple[tuple[str, ...], ...] = ()


class WorkloadKind(Struct, frozen=True):
    """A kind of workload.

    `templates` are mappings with `metadata` and `spec`; `containers` are places of single containers, for
    kinds that have no templates. `mark` is the metadata whose annotations all pods inherit; empty: that of
    their template. `also` are places of metadata that some pods inherit beside it: nothing is noted there,
    but nobody else's name stays there either. `deadline` is the field that ends the object, in seconds from
    its start. `controller` is (API group, kind) of the immediate controller of its pods. `run_once` kinds
    end by themselves.
    """

    group: str
    kind: str
    resource: str
    controller: tuple[str, str]
    templates: tuple[Template, ...] = ()
    containers: tuple[str, ...] = ()
    mark: str = ""
    also: tuple[str, ...] = ()
    deadline: str | None = None
    run_once: bool = False


def _plain(
    group: str, kind: str, resource: str, controller: str, count: str = "spec.replicas"
) -> WorkloadKind:
    """A kind with one template at the usual place."""
    counts = ((count,),) if count else ()
    return WorkloadKind(group, kind, resource, (group, controller), (Template("spec.template", counts),))


def _training(kind: str, replicas: str) -> WorkloadKind:
    """A kind of the training operator."""
    place = f"spec.{replicas}.*"
    return WorkloadKind(
        "kubeflow.org",
        kind,
        f"{kind.lower()}s",
        ("kubeflow.org", kind),
        (Template(f"{place}.template", ((f"{place}.replicas",),)),),
        deadline="spec.runPolicy.activeDeadlineSeconds",
        run_once=True,
    )


def _ray(kind: str, cluster: str, deadline: str | None = None) -> WorkloadKind:
    """A kind of Ray's operator."""
    workers = f"{cluster}.workerGroupSpecs.*"
    counts = ((f"{workers}.replicas",), (f"{workers}.numOfHosts",))
    return WorkloadKind(
        "ray.io",
        kind,
        f"{kind.lower()}s",
        ("ray.io", "RayCluster"),
        (Template(f"{cluster}.headGroupSpec.template"), Template(f"{workers}.template", counts)),
        also=("spec.submitterPodTemplate.metadata",) if kind == "RayJob" else (),
        deadline=deadline,
        run_once=deadline is not None,
    )


def _argo(kind: str, resource: str, spec: str, deadline: str | None = None) -> WorkloadKind:
    """A kind of Argo's: its templates are containers; annotations of all pods have a place of their own."""
    place = f"{spec}.templates.*"
    return WorkloadKind(
        "argoproj.io",
        kind,
        resource,
        ("argoproj.io", "Workflow"),
        containers=(
            f"{place}.container",
            f"{place}.script",
            f"{place}.containerSet.containers.*",
            f"{place}.initContainers.*",
            f"{place}.sidecars.*",
        ),
        mark=f"{spec}.podMetadata",
        also=(f"{place}.metadata", f"{spec}.templateDefaults.metadata"),
        deadline=deadline,
        run_once=deadline is not None,
    )


_CRON: Final = "spec.jobTemplate.spec"
_JOBS: Final = "spec.replicatedJobs.*"
_JOB: Final = f"{_JOBS}.template.spec"
_LEADERS: Final = "spec.leaderWorkerTemplate"

JOB: Final = WorkloadKind("batch", "Job", "jobs", ("batch", "Job"), (Template("spec.template"),))
"""Jobs, as far as they are a kind like the others; admission reads them into structs of their own."""

WORKLOADS: Final[tuple[WorkloadKind, ...]] = (
    _plain("apps", "Deployment", "deployments", "ReplicaSet"),
    _plain("apps", "ReplicaSet", "replicasets", "ReplicaSet"),
    _plain("apps", "StatefulSet", "statefulsets", "StatefulSet"),
    _plain("apps", "DaemonSet", "daemonsets", "DaemonSet", count=""),
    _plain("", "ReplicationController", "replicationcontrollers", "ReplicationController"),
    WorkloadKind(
        "batch",
        "CronJob",
        "cronjobs",
        ("batch", "Job"),
        (Template(f"{_CRON}.template", ((f"{_CRON}.parallelism", f"{_CRON}.completions"),)),),
    ),
    WorkloadKind(
        "jobset.x-k8s.io",
        "JobSet",
        "jobsets",
        ("batch", "Job"),
        (
            Template(
                f"{_JOB}.template", ((f"{_JOBS}.replicas",), (f"{_JOB}.parallelism", f"{_JOB}.completions"))
            ),
        ),
        run_once=True,
    ),
    WorkloadKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        "leaderworkersets",
        ("apps", "StatefulSet"),
        (
            Template(f"{_LEADERS}.leaderTemplate", (("spec.replicas",),)),
            Template(f"{_LEADERS}.workerTemplate", (("spec.replicas",),)),
        ),
    ),
    WorkloadKind(
        "batch.volcano.sh",
        "Job",
        "jobs",
        ("batch.volcano.sh", "Job"),
        (Template("spec.tasks.*.template", (("spec.tasks.*.replicas",),)),),
    ),
    _ray("RayCluster", "spec"),
    _ray("RayJob", "spec.rayClusterSpec", "spec.activeDeadlineSeconds"),
    _ray("RayService", "spec.rayClusterConfig"),
    _training("JAXJob", "jaxReplicaSpecs"),
    _training("MPIJob", "mpiReplicaSpecs"),
    _training("MXJob", "mxReplicaSpecs"),
    _training("PaddleJob", "paddleReplicaSpecs"),
    _training("PyTorchJob", "pytorchReplicaSpecs"),
    _training("TFJob", "tfReplicaSpecs"),
    _training("XGBoostJob", "xgbReplicaSpecs"),
    # Its operator copies the annotations of the Notebook itself, and templates have no metadata.
    WorkloadKind(
        "kubeflow.org",
        "Notebook",
        "notebooks",
        ("kubeflow.org", "Notebook"),
        (Template("spec.template"),),
        mark="metadata",
    ),
    _argo("Workflow", "workflows", "spec", "spec.activeDeadlineSeconds"),
    _argo("CronWorkflow", "cronworkflows", "spec.workflowSpec"),
)
"""Every kind beside Jobs whose creation admission looks at."""

_BY_KIND: Final = {(kind.group, kind.kind): kind for kind in WORKLOADS}


def workload_kind(group: str, kind: str) -> WorkloadKind | None:
    """The row of a kind, None for one that makes no pods that we know of."""
    return _BY_KIND.get((group, kind))


def find(value: object, path: str) -> Iterator[tuple[Path, Any]]:
    """All values at a path, each with its own path; none where a part is absent or null."""
    yield from _find(value, path.split("."), ())


def first(value: object, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a path without `*`, None where there is none."""
    return next((found for _, found in find(value, path)), None)


def at_same(path: str, pattern: str, found: Path) -> str:
    """A path whose `*` are those of `found`, which matched `pattern`."""
    stars = iter([key for key, part in zip(found, pattern.split("."), strict=True) if part == "*"])
    return ".".join(next(stars) if part == "*" else part for part in path.split("."))


def pods_at(obj: object, template: Template, found: Path) -> int:
    """How many pods the template at `found` makes at once, at least; numbers that cannot be read are 1."""
    pods = 1
    for factor in template.counts:
        numbers = [first(obj, at_same(count, template.path, found)) for count in factor]
        known = [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
        pods *= max(min(known, default=1), 0)
    return pods


def _find(value: object, parts: Sequence[str], path: Path) -> Iterator[tuple[Path, Any]]:
    """Follows the parts one by one; the containers of an object are at most some thousands."""
    if value is None:
        return
    if not parts:
        yield path, value
        return
    head, rest = parts[0], parts[1:]
    if isinstance(value, Mapping):
        keys = value.keys() if head == "*" else (head,)
        for key in keys:
            yield from _find(value.get(key), rest, (*path, str(key)))
    elif isinstance(value, list):
        for index in range(len(value)) if head == "*" else ():
            yield from _find(value[index], rest, (*path, str(index)))
        if head.isdigit() and int(head) < len(value):
            yield from _find(value[int(head)], rest, (*path, head))
