"""Reads an AdmissionReview, only the fields that admission uses, in one pass; decides nothing."""

from __future__ import annotations

import msgspec

from policy.classes import Creator
from policy.objects import Job, JobSpec, JobTemplate, ObjectMeta, Pod, PodSpec, PodTemplate
from webhook.answers import API_VERSION
from webhook.server import MalformedError

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
    """The specification of a pod or, by its template, of a workload: one pass over the body reads either."""

    template: PodTemplate | None = None
    job_template: JobTemplate | None = None


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
        return Job(self.metadata or NO_METADATA, JobSpec(spec.template, spec.active_deadline_seconds))


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


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The envelope."""

    request: Request
    kind: str = ""
    api_version: str = ""


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
    if not review.request.uid:
        msg = "request.uid: must not be empty"
        raise MalformedError(msg)
    return review.request


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
