"""Reads objects as far as a person may, and notes why not; decides nothing, writes nothing but dry runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from certs.canary import canary_pod
from cli.doctor.facts import Canary, Seen
from reaper.rights import AT_A_TIME, Right
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.listing import Reader, read_list

T = TypeVar("T")
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RESOURCE: Final = "nvidia.com/gpu"
REFUSED: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED})
PAGE: Final = 500
NO_RIGHTS: Final = "not readable with your rights"


class ClusterReader:
    """Reads one cluster with one person's rights; never raises for what they may not, or for silence."""

    def __init__(self, client: KubePort) -> None:
        self.client = client

    async def one(self, path: str, decode: Callable[[bytes], T]) -> Seen[T]:
        """Gives one object."""

        async def read() -> T:
            return decode((await self.client.request("GET", path)).body)

        return await seen(read())

    async def typed(self, path: str, kind: type[T]) -> Seen[T]:
        """Gives one object of a kind."""
        return await self.one(path, lambda body: msgspec.json.decode(body, type=kind))

    async def listed(
        self, path: str, decode: Callable[[msgspec.Raw], T | None], query: Mapping[str, str] = {}
    ) -> Seen[tuple[T, ...]]:
        """Gives a collection, without objects that cannot be read."""

        def readable(raw: msgspec.Raw) -> T | None:
            try:
                return decode(raw)
            except (msgspec.DecodeError, ValueError):
                return None

        async def read() -> tuple[T, ...]:
            _, entries = await read_list(self.client, Reader(path, readable), query, PAGE)
            return tuple(entry.value for entry in entries.values())

        return await seen(read())

    async def kinds(self, path: str, kind: type[T], query: Mapping[str, str] = {}) -> Seen[tuple[T, ...]]:
        """Gives a collection of a kind."""
        return await self.listed(path, lambda raw: msgspec.json.decode(raw, type=kind), query)

    async def lacking(self, user: str, namespace: str, rights: Iterable[Right]) -> Seen[tuple[Right, ...]]:
        """Gives the rights that a service account lacks."""
        wanted = tuple(rights)
        groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        free = asyncio.Semaphore(AT_A_TIME)

        async def has(right: Right) -> bool:
            asked = {key: value for key, value in msgspec.structs.asdict(right).items() if value}
            spec = {"user": user, "groups": groups, "resourceAttributes": asked}
            async with free:
                answer = await self.client.request("POST", REVIEWS, body=_review(spec))
            return _allowed(answer.decode(dict[str, Any]))

        async def ask() -> tuple[Right, ...]:
            if not wanted:
                return ()
            # The first one alone: whoever may not ask is refused once.
            answers = [await has(wanted[0]), *await asyncio.gather(*map(has, wanted[1:]))]
            return tuple(right for right, yes in zip(wanted, answers, strict=True) if not yes)

        return await seen(ask())

    async def canary(self, namespace: str) -> Canary:
        """Tries a GPU pod by a server-side dry run: all of admission, and nothing is kept."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        try:
            answer = await self.client.request(
                "POST", path, query={"dryRun": "All"}, body=canary_pod(RESOURCE)
            )
        except ApiError as error:
            return Canary(namespace, error.status, error.message or str(error))
        except ApiUnreachable as error:
            return Canary(namespace, 0, str(error))
        made = answer.decode(dict[str, Any])
        return Canary(namespace, answer.status, "", dict(made.get("metadata", {}).get("labels") or {}))


async def seen(work: Awaitable[T]) -> Seen[T]:
    """Waits for what is being read; says why it could not be seen. What is not there is nothing."""
    try:
        return Seen(await work)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return Seen()
        if error.status in REFUSED:
            return Seen(hidden=NO_RIGHTS)
        return Seen(hidden=f"the API server answered {error}")
    except ApiUnreachable as error:
        return Seen(hidden=f"no answer: {error}")
    except (msgspec.DecodeError, ValueError) as error:
        return Seen(hidden=f"cannot be read: {error}")


def _review(spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _allowed(answer: Mapping[str, Any]) -> bool:
    status = answer.get("status")
    return isinstance(status, dict) and status.get("allowed") is True
