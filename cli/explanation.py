"""What admission would do with an object, offline, by the webhook's own functions; prints nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cli.around import Around
from cli.documents import Document
from cli.field_errors import field_error
from cli.offline import SOMEBODY, bypass_sentences, right_sentences
from cli.templates import CRON_JOB_CONTROLLER, PERSON, Carried, creator_of, job_of, pods_of, pods_of_template
from policy.claims import ClaimTemplate
from policy.devices import Devices, devices_of
from policy.errors import InvalidError
from policy.keys import BUILT_IN_NAME
from policy.objects import Namespace, ObjectMeta, Pod
from policy.resourcequota import namespace_quotas
from policy.selection import PolicySet
from policy.workloads import WorkloadKind, workload_kind
from webhook.admission import mutate
from webhook.decision import OUTCOMES, Decision, Outcome
from webhook.images import images_stage
from webhook.patch import apply
from webhook.quota_stage import known_quotas_stage
from webhook.review import JOB, POD, Kind, Request, ReviewedObject, UserInfo, workload_request
from webhook.scene import AdmissionSettings, World
from webhook.stages import Stage
from webhook.subject import Memory, claimed_in
from webhook.validation import terms_stage, validate

_TOLD = {Outcome.PATCHED, Outcome.UNCHANGED, Outcome.CHECKED, Outcome.REFUSED, Outcome.NOT_OURS}
"""Outcomes that need no sentence of their own."""


class Setting(msgspec.Struct, frozen=True):
    """Where and by whom the objects would be created.

    `namespace` None is the object's own; `user` None is whoever creates such an object: the controller that a
    pod refers to, else a person. `claim_templates` are ResourceClaimTemplates by namespace and name; `around`
    what else of the cluster is known.
    """

    policies: PolicySet
    admission: AdmissionSettings
    user: str | None = None
    namespace: str | None = None
    namespace_labels: Mapping[str, str] = {}
    namespace_annotations: Mapping[str, str] = {}
    claim_templates: Mapping[tuple[str, str], ClaimTemplate] = {}
    around: Around = Around()


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What admission would do with one pod, or with one workload and its pods; the JSON output.

    `patch` belongs to the object of the manifest: the pod itself or, where `object` is there, the workload.
    `cards` is how many whole cards the devices weigh, exactly; `uncounted` says what is not known of them.
    `bypasses` are ways to GPUs that nobody counts, which the chart's guard warns about or refuses.
    """

    gpu_pod: bool
    allowed: bool
    pod_class: str | None = msgspec.field(name="class")
    devices: dict[str, str]
    cards: str
    uncounted: list[str]
    policy: str | None
    patch: list[dict[str, Any]]
    warnings: list[str]
    reasons: list[str]
    bypasses: list[str]
    pod: dict[str, Any]
    object: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


def explain_document(document: Document, setting: Setting) -> list[Explanation]:
    """Explains an object; empty if it carries no pods.

    Raises:
        InvalidError: a field that admission reads has no valid form.
    """
    return _Explainer(document, setting).explain()


def with_claim_templates(setting: Setting, documents: Iterable[Document]) -> Setting:
    """The setting with the ResourceClaimTemplates that the documents hold.

    Raises:
        InvalidError: a template has a field of the wrong form.
    """
    found: dict[tuple[str, str], ClaimTemplate] = {}
    for document in documents:
        if document.content["kind"] != "ResourceClaimTemplate":
            continue
        try:
            template = msgspec.convert(document.content, ClaimTemplate)
        except msgspec.ValidationError as error:
            raise InvalidError([field_error(document.where, "", error)]) from error
        namespace = setting.namespace or template.metadata.namespace or "default"
        found[namespace, template.metadata.name or ""] = template
    return msgspec.structs.replace(setting, claim_templates={**setting.claim_templates, **found})


class _Explainer:
    """Explains the object of one document."""

    def __init__(self, document: Document, setting: Setting) -> None:
        self.where = document.where
        self.content = document.content
        self.setting = setting
        self.memory = Memory()
        self.namespace = setting.namespace or self._own_namespace()
        labels, annotations = dict(setting.namespace_labels), dict(setting.namespace_annotations)
        found = setting.around.quotas.get(self.namespace, ())
        self.world = World(
            setting.policies,
            Namespace(ObjectMeta(name=self.namespace, labels=labels, annotations=annotations)),
            quotas=namespace_quotas(found, setting.admission.table),
            priority_classes=setting.around.classes_for(setting.policies),
            claim_template=lambda namespace, name: setting.claim_templates.get((namespace, name)),
        )

    def explain(self) -> list[Explanation]:
        """All explanations: one for a pod, one per template of a workload."""
        user = self.setting.user or creator_of(self.content)
        found = self._explained(user)
        return found if self.setting.user or user != PERSON else [_with_stand_in(one) for one in found]

    def _explained(self, user: str) -> list[Explanation]:
        kind, content = self.content["kind"], self.content
        if kind == "Pod":
            return [self._pod(Carried("", content, user))]
        if kind == "PodTemplate":
            return [self._workload(carried) for carried in pods_of_template(content, user)]
        if kind == "Job" and self._group() == "batch":
            decision = self._mutate(JOB, content, user, "")
            return self._made(decision, apply(content, decision.patch), "Job: ")
        row = workload_kind(self._group(), kind)
        if row is None:
            return [self._workload(carried) for carried in pods_of(kind, content)]
        decision = self._mutate_workload(row, user)
        patched = apply(content, decision.patch)
        if kind == "CronJob":
            return self._cron_job(decision, patched)
        return self._made(decision, patched, f"{kind}: ")

    def _cron_job(self, decision: Decision, patched: dict[str, Any]) -> list[Explanation]:
        """Explains a CronJob, its Jobs and their pods; only the CronJob itself is patched here."""
        job = job_of(patched)
        if job is None:
            return []
        each = self._mutate(JOB, job, CRON_JOB_CONTROLLER, "spec.jobTemplate.")
        return [
            self._with_maker(explanation, decision, patched, "CronJob: ")
            for explanation in self._made(each, apply(job, each.patch), "each Job: ")
        ]

    def _made(self, decision: Decision, patched: dict[str, Any], prefix: str) -> list[Explanation]:
        """Explains a workload that was decided about, and its pods."""
        pods = [self._pod(carried, is_told=False) for carried in pods_of(patched["kind"], patched)]
        return [self._with_maker(pod, decision, patched, prefix) for pod in pods]

    def _with_maker(
        self, pod: Explanation, decision: Decision, patched: dict[str, Any], prefix: str
    ) -> Explanation:
        """The explanation of a pod with what was decided about the object that it is made from."""
        return msgspec.structs.replace(
            pod,
            patch=list(decision.patch),
            object=patched,
            warnings=[*dict.fromkeys((*decision.warnings, *pod.warnings))],
            reasons=[*(prefix + reason for reason in _reasons(decision)), *pod.reasons],
        )

    def _workload(self, carried: Carried) -> Explanation:
        """Explains a workload that is itself admitted as it is."""
        return msgspec.structs.replace(self._pod(carried), patch=[], object=self.content)

    def _pod(self, carried: Carried, *, is_told: bool = True) -> Explanation:
        """Explains a pod: mutated, then validated as it would be stored.

        Whether somebody `is_told` what was made of it: for a workload's pods that is said of the workload.
        """
        path = carried.path and f"{carried.path}."
        mutated = self._mutate(POD, carried.pod, carried.creator, path)
        patched = apply(carried.pod, mutated.patch)
        request = self._request(POD, patched, carried.creator, path)
        stages = (terms_stage(self.memory), images_stage, self._quotas())
        admission = self.setting.admission
        checked = asyncio.run(validate(request, self.world, admission, self.memory, stages))
        devices = mutated.devices or self._devices(request)
        # A controller acts for whoever made the workload.
        sender = carried.creator if not carried.path else self.setting.user or SOMEBODY
        rights = right_sentences(mutated.policy, self.setting.policies, sender, self.namespace, admission)
        return Explanation(
            gpu_pod=mutated.outcome not in {Outcome.NOT_GPU, Outcome.CLAIMS_UNRESOLVED},
            allowed=mutated.allowed and checked.allowed,
            pod_class=mutated.pod_class,
            devices={name: str(count) for name, count in devices.charges.items()},
            cards=str(devices.weight),
            uncounted=[str(problem) for problem in (*devices.problems, *devices.unresolved)],
            policy=mutated.policy,
            patch=list(mutated.patch),
            warnings=[*dict.fromkeys((*(mutated.warnings if is_told else ()), *checked.warnings))],
            reasons=[
                *dict.fromkeys((*_reasons(mutated), *_reasons(checked), *rights)),
                *(str(problem) for problem in devices.problems),
                *self._unselected(mutated.policy),
            ],
            bypasses=bypass_sentences(carried.pod, self.namespace, admission, is_gpu=devices.may_be_gpu),
            pod=patched,
        )

    def _quotas(self) -> Stage:
        """The check against GPUQuotas."""
        found = self.setting.around.gpu_quotas_of(self.namespace, self.setting.namespace_labels)
        return known_quotas_stage(found, self.setting.admission.table.weight_of)

    def _devices(self, request: Request) -> Devices:
        """What a pod holds that admission leaves alone."""
        pod = request.object.pod() if request.object is not None else Pod()
        table = self.setting.admission.table
        claimed = claimed_in(self.namespace, pod.spec, self.world, self.setting.admission)
        return devices_of(pod.spec, pod.metadata.annotations, table, claimed)

    def _unselected(self, policy: str | None) -> tuple[str, ...]:
        """Why a policy that was given is not the one that applied, if that is for want of labels."""
        if policy != BUILT_IN_NAME or not self.setting.policies.valid:
            return ()
        labels = ",".join(f"{key}={value}" for key, value in self.setting.namespace_labels.items())
        known = f"labels {labels}" if labels else "no labels; give them with --namespace-labels"
        return (f"no given policy selects namespace {self.namespace} with {known}",)

    def _mutate(self, kind: Kind, obj: dict[str, Any], creator: str, path: str) -> Decision:
        """Asks the mutating path."""
        request = self._request(kind, obj, creator, path)
        return mutate(request, self.world, self.setting.admission, self.memory)

    def _mutate_workload(self, row: WorkloadKind, creator: str) -> Decision:
        """Asks the mutating path about the object of the document."""
        request = Request(
            uid="offline",
            kind=Kind(row.group, "", row.kind),
            operation="CREATE",
            namespace=self.namespace,
            user_info=UserInfo(creator),
            dry_run=True,
        )
        try:
            whole = workload_request(request, self.content)
        except msgspec.ValidationError as error:
            raise InvalidError([field_error(self.where, "", error)]) from error
        return mutate(whole, self.world, self.setting.admission, self.memory)

    def _group(self) -> str:
        """The API group of the object."""
        group, slash, _ = str(self.content.get("apiVersion", "")).partition("/")
        return group if slash else ""

    def _request(self, kind: Kind, obj: dict[str, Any], creator: str, path: str) -> Request:
        """A review's request for the object."""
        try:
            # By way of JSON, since fields that stay unread are kept as text.
            reviewed = msgspec.json.decode(msgspec.json.encode(obj), type=ReviewedObject)
        except msgspec.ValidationError as error:
            raise InvalidError([field_error(self.where, path, error)]) from error
        return Request(
            uid="offline",
            kind=kind,
            operation="CREATE",
            namespace=self.namespace,
            user_info=UserInfo(creator),
            dry_run=True,
            object=reviewed,
        )

    def _own_namespace(self) -> str:
        """The namespace that the manifest names."""
        metadata = self.content.get("metadata")
        name = metadata.get("namespace") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) and name else "default"


def _reasons(decision: Decision) -> tuple[str, ...]:
    """Why the decision is what it is."""
    told = () if decision.outcome in _TOLD else (OUTCOMES[decision.outcome],)
    return (*decision.reasons, *told)


def _with_stand_in(explanation: Explanation) -> Explanation:
    """Says who is meant where nobody is named: the one name in the answer that no manifest has."""
    named, told = f"requested by {PERSON}", "which stands for whoever creates it (--user NAME)"
    reasons = [f"{one}, {told}" if one.endswith(named) else one for one in explanation.reasons]
    return msgspec.structs.replace(explanation, reasons=reasons)
