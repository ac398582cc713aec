"""Asks Prometheus, or what speaks its API: full answers or an error, in limited time; knows no metrics."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec
import requests
import urllib3
from msgspec import Struct
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.auth import HTTPBasicAuth

from policy.verdicts import Reason
from reaper.clocks import server_time

CHUNK_BYTES: Final = 1 << 16
MAX_BODY_BYTES: Final = 256 << 20
MAX_MESSAGE: Final = 300
SPARE_SECONDS: Final = 5.0
STRICT: Final = {"partial_response": "false", "deny_partial_response": "1"}
"""Asks Thanos and VictoriaMetrics for an error instead of a partial answer; Prometheus ignores it."""


class Sample(Struct, frozen=True):
    """One series of an instant answer."""

    labels: dict[str, str]
    value: float


class PrometheusError(Exception):
    """A query was not answered in full.

    Attributes:
        reason: PrometheusUnavailable, PartialAnswer or GarbageAnswer.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PrometheusPort(Protocol):
    """What judging needs of Prometheus."""

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """The instant vector of an expression at a time.

        Raises:
            PrometheusError: there is no answer, or not a full one.
        """
        ...


class PrometheusOptions(Struct, frozen=True):
    """How to reach Prometheus.

    Attributes:
        url: The address, with a path prefix if there is one.
        timeout: Seconds for one query, connecting and reading included.
        concurrency: Queries at a time.
        bearer_token_file: A file with a token, read anew for each query because tokens are rotated.
        username: For basic authentication,
        password_file: with the password in this file.
        ca_file: Certificates to trust instead of the usual ones.
        cert_file: A certificate to show; read anew for each connection, as is its key,
        key_file: which is in this file.
        headers: Further headers, such as `X-Scope-OrgID`.
    """

    url: str
    timeout: float = 15.0
    concurrency: int = 4
    bearer_token_file: Path | None = None
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses an address that no request can use, and half of a certificate.

        Raises:
            ValueError: it is no http address, or carries a password, which would show up in messages; or a
                certificate has no key, or a key no certificate.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an address such as http://prometheus.monitoring:9090")
        if parts.username or parts.password:
            raise ValueError("must not carry a user or a password; give them as settings")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("a certificate needs its private key, and a key its certificate")


class _Data(Struct, rename="camel"):
    result_type: str = ""


class _Envelope(Struct, rename="camel"):
    """The part of an answer that the client library drops."""

    status: str = ""
    error_type: str = ""
    error: str = ""
    warnings: tuple[str, ...] | None = None
    is_partial: bool | None = None
    data: _Data | None = None


class _FormSession(requests.Session):
    """Sends the parameters of a POST as a form: the library puts them into the address, which overflows."""

    def request(self, method: str | bytes, url: str | bytes, params: Any = None, **options: Any) -> Any:  # type: ignore[override]  # noqa: ANN401
        """Sends a request; see requests.Session.request."""
        if method == "POST":
            return super().request(method, url, data=params, **options)
        return super().request(method, url, params=params, **options)


class HttpPrometheus:
    """The adapter over prometheus-api-client: the only place that knows the library; for one event loop.

    Attributes:
        answered_at: What Prometheus' clock showed at its last answer; None if it has not said.
    """

    def __init__(self, options: PrometheusOptions, monotonic: Callable[[], float]) -> None:
        self.answered_at: datetime | None = None
        self._options = options
        self._monotonic = monotonic
        self._threads = ThreadPoolExecutor(options.concurrency, "prometheus")
        self._slots = asyncio.Semaphore(options.concurrency)
        session = _FormSession()
        session.trust_env = False
        session.headers.update(options.headers)
        session.verify = str(options.ca_file) if options.ca_file else True
        if options.cert_file and options.key_file:
            session.cert = (str(options.cert_file), str(options.key_file))
        session.auth = self._authenticate
        session.hooks["response"].append(self._check)
        self._session = session
        self._client = PrometheusConnect(
            url=options.url.rstrip("/"),
            session=session,
            timeout=options.timeout,
            method="POST",
            retry=urllib3.Retry(
                total=1, connect=1, read=0, redirect=0, status=0, other=0, backoff_factor=0.1
            ),
        )

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """The instant vector of an expression at a time.

        Raises:
            PrometheusError: there is no answer within the time limit, or not a full one.
        """
        loop = asyncio.get_running_loop()
        try:
            async with self._slots:
                # Reading is bounded too; this is for what a thread cannot bound, such as resolving a name.
                async with asyncio.timeout(self._options.timeout + SPARE_SECONDS):
                    return await loop.run_in_executor(self._threads, self._ask, expression, at)
        except TimeoutError as error:
            raise PrometheusError(
                Reason.PROMETHEUS_UNAVAILABLE, "Prometheus did not answer in time"
            ) from error

    def close(self) -> None:
        """Closes connections; running queries end by their own time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _ask(self, expression: str, at: datetime) -> list[Sample]:
        params = {
            "time": f"{at.timestamp():.3f}",
            "timeout": f"{max(1, round(self._options.timeout))}s",
            **STRICT,
        }
        with _wrapped(self._options.url):
            result = self._client.custom_query(expression, params)
            return [Sample(one["metric"], float(one["value"][1])) for one in result]

    def _authenticate(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        options = self._options
        if options.bearer_token_file:
            request.headers["Authorization"] = f"Bearer {_secret(options.bearer_token_file)}"
        elif options.username:
            password = _secret(options.password_file) if options.password_file else ""
            HTTPBasicAuth(options.username.encode(), password.encode())(request)
        return request

    def _check(self, response: requests.Response, **_: object) -> requests.Response:
        """Reads the body within the time limit and lets only full answers through."""
        try:
            body = self._read(response)
            refuse_partial(response.status_code, body)
        except BaseException:
            # An answer that was not read to its end holds its connection.
            response.close()
            raise
        self.answered_at = server_time(response.headers)
        response.raw = urllib3.HTTPResponse(io.BytesIO(body), preload_content=False)
        return response

    def _read(self, response: requests.Response) -> bytes:
        deadline = self._monotonic() + self._options.timeout
        parts: list[bytes] = []
        size = 0
        while part := response.raw.read1(CHUNK_BYTES, decode_content=True):
            parts.append(part)
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise PrometheusError(Reason.GARBAGE_ANSWER, "the answer is larger than 256 MiB")
            if self._monotonic() > deadline:
                raise PrometheusError(Reason.PROMETHEUS_UNAVAILABLE, "Prometheus did not answer in time")
        return b"".join(parts)


def refuse_partial(status: int, body: bytes) -> None:
    """Refuses every answer but a full instant vector; `infos` are hints and pass.

    Raises:
        PrometheusError: with the reason, and Prometheus' own words where it gave some.
    """
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except msgspec.DecodeError as error:
        raise PrometheusError(_reason_of(status), f"HTTP {status}, {_shape(body)}") from error
    if status != 200 or envelope.status != "success":
        said = f"{envelope.error_type}: {envelope.error}".strip(": ") or "no reason given"
        raise PrometheusError(_reason_of(status), _cut(f"HTTP {status}, {said}"))
    if envelope.warnings:
        raise PrometheusError(Reason.PARTIAL_ANSWER, _cut(f"answered in part: {envelope.warnings[0]}"))
    if envelope.is_partial:
        raise PrometheusError(Reason.PARTIAL_ANSWER, "answered in part (isPartial)")
    if envelope.data is None or envelope.data.result_type != "vector":
        raise PrometheusError(Reason.GARBAGE_ANSWER, "the answer holds no instant vector")


def _reason_of(status: int) -> Reason:
    return Reason.GARBAGE_ANSWER if status < 300 else Reason.PROMETHEUS_UNAVAILABLE


def _shape(body: bytes) -> str:
    start = body[:200].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<")):
        return "a web page instead of the Prometheus API (a login page or a wrong address?)"
    return "an answer that is no JSON" if body else "an empty answer"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _secret(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


@contextmanager
def _wrapped(url: str) -> Iterator[None]:
    """Turns what the library, its transport and the file system raise into one error."""
    try:
        yield
    except PrometheusError:
        raise
    except requests.Timeout as error:
        raise PrometheusError(Reason.PROMETHEUS_UNAVAILABLE, "Prometheus did not answer in time") from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        text = _cut(f"cannot reach {url}: {_root_of(error)}")
        raise PrometheusError(Reason.PROMETHEUS_UNAVAILABLE, text) from error
    except (PrometheusApiClientException, KeyError, IndexError, TypeError, ValueError) as error:
        raise PrometheusError(Reason.GARBAGE_ANSWER, "the answer cannot be read") from error


def _root_of(error: BaseException) -> str:
    """What the system said, where it said something: `Connection refused` rather than the whole chain."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
        link = link.__cause__ or link.__context__
    return str(error) or type(error).__name__
