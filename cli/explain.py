"""`gpu-tenure explain`: what admission would do with a manifest; reads files and prints, decides nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from cli.documents import Document
    from cli.explanation import Explanation, Setting
    from policy.requester import RequesterSource
    from policy.selection import PolicySet

Output = Literal["text", "json", "yaml"]
REFUSED = 1


def explain(  # noqa: PLR0913, PLR0917 - one argument per flag
    file: Annotated[
        list[str], typer.Option("--file", "-f", help="Manifest that carries pods; - is standard input.")
    ],
    policy: Annotated[
        list[str] | None, typer.Option(help="GPUPolicy manifests; without any the built-in policy applies.")
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Namespace, whatever the manifest says.")] = None,
    namespace_labels: Annotated[
        str, typer.Option(help="Labels of the namespace, as k=v,…", metavar="K=V,…")
    ] = "",
    namespace_annotations: Annotated[
        str, typer.Option(help="Annotations of the namespace, as k=v,…", metavar="K=V,…")
    ] = "",
    requester_sources: Annotated[
        str, typer.Option(help="Who acts for others, as CREATOR=PLACE:KEY,…", metavar="SOURCE,…")
    ] = "",
    user: Annotated[
        str | None,
        typer.Option(help="Who creates the object; else the controller that it refers to, or a person."),
    ] = None,
    profile: Annotated[
        Literal["observe", "warn", "enforce"], typer.Option(help="Profile of the installation.")
    ] = "observe",
    gpu_resources: Annotated[
        str, typer.Option(help="The chart's gpuResources as JSON: further names of GPU resources.")
    ] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="Form of the answer.")] = "text",
) -> None:
    """Show what admission would do with a manifest, offline: terms, deadline, patch, warnings and why.

    Reads Pods, Deployments, Jobs, CronJobs and any other object with a pod template, and what they depend on:
    ResourceClaimTemplates, ResourceQuotas, GPUQuotas with what they hold (`kubectl get gpuquotas -o yaml`),
    and PriorityClasses (without any of these, the ones that policies name are taken to exist). For a
    workload, `object` is the patched workload and `pod` what its pods would be admitted as. Exit code 0:
    allowed, 1: refused, 2: bad input.
    """
    from cli.explanation import Setting
    from cli.gpu_resources import read_table
    from policy.profile import Profile
    from webhook.scene import AdmissionSettings

    setting = Setting(
        policies=_policies(policy or []),
        admission=AdmissionSettings(
            profile=Profile(profile),
            table=read_table(gpu_resources),
            requester_sources=_sources(requester_sources),
        ),
        user=user,
        namespace=namespace,
        namespace_labels=_labels(namespace_labels, "--namespace-labels"),
        namespace_annotations=_labels(namespace_annotations, "--namespace-annotations"),
    )
    explanations = _explain_files(file, setting)
    _print(explanations, output)
    if not all(explanation.allowed for explanation in explanations):
        raise typer.Exit(REFUSED)


def _explain_files(files: list[str], setting: Setting) -> list[Explanation]:
    """Explains all objects of all files; raises InvalidError with everything that is wrong."""
    import msgspec

    from cli.around import around_of
    from cli.documents import read_documents
    from cli.explanation import explain_document, with_claim_templates
    from policy.errors import FieldError, InvalidError

    found: list[Explanation] = []
    errors: list[FieldError] = []
    documents: list[Document] = []
    for name in files:
        try:
            documents += read_documents(_called(name), _read(name))
        except InvalidError as error:
            errors += error.errors
    try:
        setting = with_claim_templates(setting, documents)
        setting = msgspec.structs.replace(setting, around=around_of(documents, setting.namespace))
    except InvalidError as error:
        errors += error.errors
    for document in documents:
        try:
            found += explain_document(document, setting)
        except InvalidError as error:
            errors += error.errors
    if not errors and not found:
        names = ", ".join(map(_called, files))
        errors.append(FieldError(names, "carries no pods; expected a Pod, or an object with a pod template"))
    if errors:
        raise InvalidError(errors)
    return found


def _policies(files: list[str]) -> PolicySet:
    """Reads the policies; raises InvalidError with the errors of all of them."""
    from cli.documents import read_documents
    from policy.errors import FieldError, InvalidError
    from policy.selection import PolicySet

    documents = []
    errors: list[FieldError] = []
    for name in files:
        try:
            documents += read_documents(_called(name), _read(name))
        except InvalidError as error:
            errors += error.errors
    for document in documents:
        read = PolicySet.of([document.content])
        for broken in read.invalid.values():
            errors += [FieldError(f"{document.where}: {one.path}", one.message) for one in broken.errors]
    if errors:
        raise InvalidError(errors)
    return PolicySet.of([document.content for document in documents])


def _sources(text: str) -> tuple[RequesterSource, ...]:
    """Reads who acts for others; raises InvalidError with all that is wrong."""
    from policy.errors import FieldError, FormatError, InvalidError
    from policy.requester import parse_source

    sources: list[RequesterSource] = []
    errors: list[FieldError] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            sources.append(parse_source(part))
        except FormatError as error:
            errors.append(FieldError("--requester-sources", f"{error}; got {part!r}"))
    if errors:
        raise InvalidError(errors)
    return tuple(sources)


def _labels(text: str, flag: str) -> dict[str, str]:
    """Reads `k=v,…`."""
    from policy.errors import FieldError, InvalidError

    labels: dict[str, str] = {}
    errors: list[FieldError] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key:
            message = f"must be key=value, such as team=vision; got {part!r}"
            errors.append(FieldError(flag, message))
        labels[key.strip()] = value.strip()
    if errors:
        raise InvalidError(errors)
    return labels


def _read(name: str) -> bytes:
    """Reads a file, or standard input for `-`."""
    from cli.documents import LIMIT_BYTES
    from policy.errors import FieldError, InvalidError

    try:
        if name == "-":
            return sys.stdin.buffer.read(LIMIT_BYTES + 1)
        with Path(name).open("rb") as opened:
            return opened.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidError([FieldError(name, f"cannot be read: {error.strerror}")]) from error


def _called(name: str) -> str:
    """How a file is called in errors."""
    return "standard input" if name == "-" else name


def _print(explanations: list[Explanation], output: Output) -> None:
    """Prints the answer; one explanation stands alone, several are a list."""
    import msgspec

    if output == "text":
        from cli.explain_text import print_text

        print_text(explanations)
        return
    answer = msgspec.to_builtins(explanations[0] if len(explanations) == 1 else explanations)
    if output == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True, width=110), nl=False)
    else:
        typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
