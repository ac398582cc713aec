"""Reads an AdmissionReview, only the fields that admission uses, in one pass; decides nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from policy.classes import Creator
from policy.objects import Job, JobSpec, JobTemplate, ObjectMeta, Pod, PodSpec, PodTemplate
from policy.workloads import workload_kind
from webhook.answers import API_VERSION
from webhook.reception import MalformedError

REVIEW_KIND = "AdmissionReview"


class Kind(msgspec.Struct, frozen=True):
    """Group, version and kind of an object; the core group is empty."""

    group: str = ""
    version: str = ""
    kind: str = ""


POD = Kind("", "v1", "Pod")
JOB = Kind("batch", "v1", "Job")


class UserInfo(msgspec.Struct, frozen=True):
    """Who sent the request."""

    username: str = ""
    groups: tuple[str, ...] | None = None
    uid: str | None = None
    extra: dict[str, tuple[str, ...] | None] | None = None

    def creator(self) -> Creator:
        """The same as the contract names it."""
        return Creator(self.username, self.groups or ())


class ReviewedSpec(PodSpec, frozen=True, rename="camel"):
    """The specification of a pod or, by its template, of a workload: one pass over the body reads either.

    What few policies look at stays unread text, empty where it is absent.
    """

    template: PodTemplate | None = None
    job_template: JobTemplate | None = None
    parallelism: int | None = None
    completions: int | None = None
    preemption_policy: str | None = None
    tolerations: msgspec.Raw = msgspec.Raw()
    node_selector: msgspec.Raw = msgspec.Raw()
    affinity: msgspec.Raw = msgspec.Raw()


class ReviewedObject(msgspec.Struct, frozen=True):
    """A pod or Job as it was sent: a part that is absent or null is None."""

    metadata: ObjectMeta | None = None
    spec: ReviewedSpec | None = None

    def pod(self) -> Pod:
        """The object as a pod."""
        return Pod(self.metadata or NO_METADATA, self.spec or NO_SPEC)

    def job(self) -> Job:
        """The object as a Job."""
        spec = self.spec or NO_SPEC
        return Job(
            self.metadata or NO_METADATA,
            JobSpec(
                spec.template,
                spec.active_deadline_seconds,
                parallelism=spec.parallelism,
                completions=spec.completions,
            ),
        )


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """`request` of a review; the options are not read."""

    uid: str
    kind: Kind
    operation: str
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None
    object: ReviewedObject | None = None
    old_object: ReviewedObject | None = None


class WorkloadRequest(Request, frozen=True, rename="camel"):
    """The request about a workload: `object` is what it shares with pods, `tree` all of it."""

    tree: dict[str, Any] = {}


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The envelope."""

    request: Request
    kind: str = ""
    api_version: str = ""


class _TreeRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request whose object may have any form."""

    uid: str
    kind: Kind
    operation: str
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None
    object: dict[str, Any] | None = None


class _TreeReview(msgspec.Struct, frozen=True, rename="camel"):
    """A review whose object may have any form."""

    request: _TreeRequest
    kind: str = ""
    api_version: str = ""


class _ObjectMetadata(msgspec.Struct, frozen=True):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta | None = None


class _Header(msgspec.Struct, frozen=True):
    """The part of a request that has the same form for every kind."""

    uid: str
    kind: Kind
    operation: str


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    """A review whose object is not read."""

    request: _Header
    kind: str = ""
    api_version: str = ""


NO_METADATA = ObjectMeta()
NO_SPEC = ReviewedSpec()

_decoder = msgspec.json.Decoder(Review)
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_tree_decoder = msgspec.json.Decoder(_TreeReview)


def read_request(body: bytes) -> Request:
    """Reads the request of a review; the object of a kind that admission does not know stays unread.

    Raises:
        MalformedError: the body is not a review that this webhook understands.
    """
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        review = _read_other_kind(body, error)
    if review.kind != REVIEW_KIND or review.api_version != API_VERSION:
        msg = f"expected {REVIEW_KIND} {API_VERSION}, got {review.kind[:40]!r} {review.api_version[:40]!r}"
        raise MalformedError(msg)
    request = review.request
    if not request.uid:
        msg = "request.uid: must not be empty"
        raise MalformedError(msg)
    if request.kind == POD or workload_kind(request.kind.group, request.kind.kind) is None:
        return request
    return _read_workload(body, request)


def workload_request(request: Request, tree: dict[str, Any]) -> WorkloadRequest:
    """The request about a workload, from one that names it and the plain JSON object.

    Raises:
        msgspec.ValidationError: its metadata has another form than all objects have.
    """
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    fields["object"] = request.object or ReviewedObject(msgspec.convert(tree, _ObjectMetadata).metadata)
    return WorkloadRequest(**fields, tree=tree)


def _read_workload(body: bytes, request: Request) -> WorkloadRequest:
    """Reads all of the object of a request that may have been read in part only."""
    try:
        found = _tree_decoder.decode(body).request
        known = {name: getattr(found, name) for name in found.__struct_fields__ if name != "object"}
        return workload_request(msgspec.structs.replace(request, **known), found.object or {})
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"not an AdmissionReview: {error}"
        raise MalformedError(msg) from error


def _read_other_kind(body: bytes, cause: Exception) -> Review:
    """Reads the envelope alone, if the fields of its kind need not look like ours."""
    try:
        envelope = _envelope_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        envelope = None
    if envelope is None or envelope.request.kind in (POD, JOB):
        msg = f"not an AdmissionReview: {cause}"
        raise MalformedError(msg) from cause
    header = envelope.request
    request = Request(uid=header.uid, kind=header.kind, operation=header.operation)
    return Review(request, envelope.kind, envelope.api_version)
