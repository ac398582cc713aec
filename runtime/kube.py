"""Requests to the API server: raw bodies, time-outs, typed errors. Knows nothing of what is asked.

The token goes to the API server alone: redirects are not followed, the environment's netrc is not read, and
without TLS no credentials are sent.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, Self, TypeVar

import aiohttp
import msgspec

from runtime.answers import ApiError, ApiUnreachable, Cause, Response, api_error
from runtime.kubeconfig import Access, KubeConfigError, load_access
from runtime.lines import LineFramer, LineTooLongError

__all__ = [
    "ApiError",
    "ApiUnreachable",
    "Cause",
    "KubeClient",
    "KubeConfigError",
    "KubePort",
    "Query",
    "Response",
]

T = TypeVar("T")
Query = Mapping[str, str | int | bool]
MERGE_PATCH = "application/merge-patch+json"
REQUEST_SECONDS = 10.0
CONNECT_SECONDS = 5.0
IDLE_STREAM_SECONDS = 150.0
USER_AGENT = "gpu-tenure"


class KubePort(Protocol):
    """What components need of the API server; tests implement it."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109 - part of every call on purpose
    ) -> Response:
        """Sends one request; raises ApiError (status 400 or more) or ApiUnreachable (no readable answer)."""
        ...

    async def get(self, path: str, kind: type[T], *, query: Query | None = None) -> T:
        """Reads one object or list as `kind`; raises as `request` does."""
        ...

    def stream(
        self, path: str, query: Query | None = None, idle_timeout: float = IDLE_STREAM_SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of an answer until the server ends it; raises as `request` does."""
        ...


class KubeClient:
    """The KubePort that talks to a real API server."""

    def __init__(self, access: Access, timeout: float = REQUEST_SECONDS) -> None:
        self._access = access
        self._timeout = timeout
        try:
            self._rest = access.session_factory(access.configuration)
        except (OSError, ssl.SSLError) as error:
            msg = f"certificates for {access.host}: {error}"
            raise KubeConfigError(msg) from error
        # The library's session trusts the environment (netrc); ours shares only its verified connections.
        self._session = aiohttp.ClientSession(
            connector=self._rest.pool_manager.connector, connector_owner=False, trust_env=False
        )

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        timeout: float = REQUEST_SECONDS,  # noqa: ASYNC109 - the limit of later calls, not of this one
        environ: Mapping[str, str] | None = None,
    ) -> KubeClient:
        """Reads the configuration (nothing is sent yet); `timeout` is the limit of a call in seconds.

        Raises KubeConfigError.
        """
        return cls(await load_access(kubeconfig, context, environ), timeout)

    @property
    def host(self) -> str:
        """The API server's base URL."""
        return self._access.host

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()
        await self._rest.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109 - part of every call on purpose
    ) -> Response:
        """Sends one request and reads the whole answer; `body` is bytes or anything msgspec can encode.

        Raises ApiError for a status of 400 or more, ApiUnreachable without a readable answer. A 401 renews
        the credentials and is tried once more.
        """
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        limit = aiohttp.ClientTimeout(total=timeout or self._timeout, connect=CONNECT_SECONDS)
        for renewed in (False, True):
            headers = await self._headers(content_type if data is not None else None, force=renewed)
            try:
                async with self._open(method, path, query, data, headers, limit) as answer:
                    received = await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(method, path, error) from error
            if answer.status != 401 or renewed:
                break
        return _response(answer, received, path)

    async def get(self, path: str, kind: type[T], *, query: Query | None = None) -> T:
        """Reads one object or list as `kind`; raises as `request` does."""
        return (await self.request("GET", path, query=query)).decode(kind)

    async def stream(
        self, path: str, query: Query | None = None, idle_timeout: float = IDLE_STREAM_SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch; a connection silent for `idle_timeout` seconds counts as dead.

        Raises ApiError or ApiUnreachable, also when the stream is cut within a line. A 401 renews the
        credentials and is tried once more.
        """
        limit = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=idle_timeout)
        framer = LineFramer()
        for renewed in (False, True):
            headers = await self._headers(None, force=renewed)
            try:
                async with self._open("GET", path, query, None, headers, limit) as answer:
                    if answer.status == 401 and not renewed:
                        continue
                    if answer.status >= 300 or not _is_json(answer.content_type):
                        _response(answer, await answer.read(), path)
                    async for chunk in answer.content.iter_any():
                        for line in framer.feed(chunk):
                            yield line
                    break
            except (aiohttp.ClientError, TimeoutError, OSError, LineTooLongError) as error:
                raise _unreachable("GET", path, error) from error
        if framer.unfinished:
            msg = f"GET {path}: the stream ended within a line"
            raise ApiUnreachable(msg)

    def _open(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None,
        headers: dict[str, str],
        limit: aiohttp.ClientTimeout,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if not path.startswith("/"):
            msg = f"a path begins with a slash: {path!r}"
            raise ValueError(msg)
        return self._session.request(
            method,
            self._access.host + path,
            params=_parameters(query),
            data=data,
            headers=headers,
            timeout=limit,
            allow_redirects=False,
            proxy=self._access.proxy,
            server_hostname=self._access.configuration.tls_server_name,
        )

    async def _headers(self, content_type: str | None, *, force: bool = False) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if self._access.in_cluster:
            # So near, packing and unpacking a large list costs both ends more than sending it.
            headers["Accept-Encoding"] = "identity"
        if content_type:
            headers["Content-Type"] = content_type
        try:
            authorization = await self._access.authorization(force=force)
        except Exception as error:  # noqa: BLE001 - plugins and providers raise whatever they like
            # The text of the error may hold a plugin's output and with it a token: only its type is told.
            msg = f"no credentials: {type(error).__name__} while renewing them"
            raise ApiUnreachable(msg) from None
        if authorization:
            headers["Authorization"] = authorization
        return headers


def _response(answer: aiohttp.ClientResponse, body: bytes, path: str) -> Response:
    if answer.status >= 400 and answer.content_type != "text/html":
        raise api_error(answer.status, body, answer.headers.get("Retry-After"))
    if answer.status >= 300:
        msg = f"{path}: answered {answer.status} with {answer.content_type}, not by an API server"
        raise ApiUnreachable(msg)
    if body and path.startswith("/api") and not (_is_json(answer.content_type) or path.endswith("/log")):
        msg = f"{path}: answered {answer.content_type} instead of JSON"
        raise ApiUnreachable(msg)
    headers = {name.lower(): ", ".join(answer.headers.getall(name)) for name in answer.headers}
    return Response(answer.status, headers, body)


def _is_json(content_type: str) -> bool:
    return content_type == "application/json" or content_type.endswith("+json")


def _unreachable(method: str, path: str, error: BaseException) -> ApiUnreachable:
    return ApiUnreachable(f"{method} {path}: {type(error).__name__} {error}".strip())


def _parameters(query: Query | None) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (query or {}).items()
    }
