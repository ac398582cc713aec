"""The adapter against servers that answer in every bad way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from certs.issue import KeyPair, issue_ca, issue_leaf
from policy.verdicts import Reason
from reaper.criteria import JudgeSettings
from reaper.observation import observe
from reaper.prometheus import HttpPrometheus, PrometheusError, PrometheusOptions, Sample
from sandbox.faults import Fault, FaultProxy
from tests.certs.clients import client_pair
from tests.reaper.judging.fake import GOOD, Fake, hang, reset, serving, trickle, truncate, vanish
from tests.reaper.judging.past import NOW


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A fake Prometheus on a free port."""
    with serving() as state:
        yield state


async def ask(url: str, **options: object) -> list[Sample]:
    """One query through the adapter."""
    adapter = HttpPrometheus(PrometheusOptions(url, **{"timeout": 5.0, **options}), monotonic)  # type: ignore[arg-type]
    try:
        return await adapter.query("up == 1", NOW)
    finally:
        adapter.close()


async def refusal(url: str, **options: object) -> PrometheusError:
    """The error that a query ends in."""
    with pytest.raises(PrometheusError) as caught:
        await ask(url, **options)
    return caught.value


async def test_a_full_answer_is_read(fake: Fake) -> None:
    """Labels and values come through."""
    assert await ask(fake.url) == [Sample({"pod": "a"}, 2.5)]


async def test_the_query_is_a_form(fake: Fake) -> None:
    """Nothing is in the address: long queries fit, and the time is always said."""
    await ask(f"{fake.url}/prefix/")
    path, _, form = fake.requests[0]
    assert urlsplit(path).path == "/prefix/api/v1/query"
    assert urlsplit(path).query == ""
    assert form["query"] == ["up == 1"]
    assert form["time"] == [f"{NOW.timestamp():.3f}"]
    assert form["partial_response"] == ["false"]
    assert form["deny_partial_response"] == ["1"]


async def test_connections_are_kept(fake: Fake) -> None:
    """Many queries, one after the other, need one connection."""
    adapter = HttpPrometheus(PrometheusOptions(fake.url, concurrency=1), monotonic)
    for _ in range(5):
        await adapter.query("up", NOW)
    adapter.close()
    assert len(fake.ports) == 1


BAD = [
    pytest.param(
        200, b"<!doctype html><html>login</html>", Reason.GARBAGE_ANSWER, "web page", id="a login page"
    ),
    pytest.param(
        502, b"<html>bad gateway</html>", Reason.PROMETHEUS_UNAVAILABLE, "502", id="a gateway's page"
    ),
    pytest.param(200, b"", Reason.GARBAGE_ANSWER, "empty", id="nothing"),
    pytest.param(200, b"[]", Reason.GARBAGE_ANSWER, "JSON", id="another JSON"),
    pytest.param(200, b"\xff\x00", Reason.GARBAGE_ANSWER, "JSON", id="binary"),
    pytest.param(
        200,
        {"status": "error", "errorType": "execution", "error": "too many"},
        Reason.GARBAGE_ANSWER,
        "too many",
        id="status error with 200",
    ),
    pytest.param(
        422,
        {
            "status": "error",
            "errorType": "execution",
            "error": "query processing would load too many samples",
        },
        Reason.PROMETHEUS_UNAVAILABLE,
        "too many samples",
        id="too many samples",
    ),
    pytest.param(
        503,
        {"status": "error", "errorType": "timeout", "error": "query timed out"},
        Reason.PROMETHEUS_UNAVAILABLE,
        "timed out",
        id="a query that timed out",
    ),
    pytest.param(
        400,
        {"status": "error", "errorType": "bad_data", "error": "parse error"},
        Reason.PROMETHEUS_UNAVAILABLE,
        "parse error",
        id="bad data",
    ),
    pytest.param(401, b"Unauthorized", Reason.PROMETHEUS_UNAVAILABLE, "401", id="no credentials"),
    pytest.param(302, b"", Reason.PROMETHEUS_UNAVAILABLE, "302", id="a redirect"),
    pytest.param(
        200, {**GOOD, "warnings": ["store away"]}, Reason.PARTIAL_ANSWER, "store away", id="Thanos' warning"
    ),
    pytest.param(
        200, {**GOOD, "isPartial": True}, Reason.PARTIAL_ANSWER, "isPartial", id="VictoriaMetrics' part"
    ),
    pytest.param(
        200,
        {"status": "success", "data": {"resultType": "matrix", "result": []}},
        Reason.GARBAGE_ANSWER,
        "vector",
        id="a matrix",
    ),
    pytest.param(
        200,
        {
            "status": "success",
            "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "many"]}]},
        },
        Reason.GARBAGE_ANSWER,
        "cannot be read",
        id="a value that is no number",
    ),
    pytest.param(
        200,
        {"status": "success", "data": {"resultType": "vector", "result": [{"value": [1, "1"]}]}},
        Reason.GARBAGE_ANSWER,
        "cannot be read",
        id="a sample without labels",
    ),
    pytest.param(
        200,
        {"status": "success", "data": {"resultType": "vector"}},
        Reason.GARBAGE_ANSWER,
        "cannot be read",
        id="a vector without result",
    ),
]


@pytest.mark.parametrize(("status", "body", "reason", "said"), BAD)
async def test_a_bad_answer_is_refused(
    fake: Fake, status: int, body: object, reason: Reason, said: str
) -> None:
    """Whatever is not a full vector is an error with a reason and a sentence."""
    fake.says(body, status)
    fake.headers = {"Location": "/login"} if status == 302 else {}
    error = await refusal(fake.url)
    assert error.reason is reason
    assert said in str(error)


async def test_infos_are_hints(fake: Fake) -> None:
    """An `infos` entry does not make an answer partial."""
    fake.says({**GOOD, "infos": ["metric might not be a counter"], "warnings": [], "isPartial": False})
    assert await ask(fake.url) == [Sample({"pod": "a"}, 2.5)]


@pytest.mark.parametrize("act", [hang, trickle, truncate, vanish, reset], ids=lambda act: act.__doc__)
async def test_a_bad_connection_ends_in_time(
    fake: Fake, act: Callable[[BaseHTTPRequestHandler, threading.Event], None]
) -> None:
    """A server that hangs, trickles, truncates or closes is an error well before a cycle is over."""
    fake.act = act
    before = monotonic()
    error = await refusal(fake.url, timeout=0.4)
    assert error.reason is Reason.PROMETHEUS_UNAVAILABLE
    assert monotonic() - before < 3


async def test_nobody_listens() -> None:
    """A refused connection says so, without a chain of library names."""
    error = await refusal("http://127.0.0.1:1")
    assert str(error) == "cannot reach http://127.0.0.1:1: Connection refused"


@pytest.mark.parametrize("kind", ["truncate", "html"])
async def test_a_proxy_that_goes_wrong(fake: Fake, kind: str) -> None:
    """Half an answer and a gateway's page are errors, and the next query works again."""
    with FaultProxy(fake.url) as proxy:
        proxy.fault = Fault(kind)  # type: ignore[arg-type]
        error = await refusal(proxy.url)
        assert error.reason is Reason.PROMETHEUS_UNAVAILABLE
        proxy.fault = Fault()
        assert await ask(proxy.url) == [Sample({"pod": "a"}, 2.5)]


async def test_the_token_is_read_anew(fake: Fake, tmp_path: Path) -> None:
    """A rotated token is used by the next query."""
    token = tmp_path / "token"
    adapter = HttpPrometheus(PrometheusOptions(fake.url, bearer_token_file=token), monotonic)
    for text in ("one", "two"):
        token.write_text(f"{text}\n")
        await adapter.query("up", NOW)
    adapter.close()
    assert [headers["Authorization"] for _, headers, _ in fake.requests] == ["Bearer one", "Bearer two"]


async def test_a_missing_token_is_an_error(fake: Fake, tmp_path: Path) -> None:
    """A token file that is gone never leads to a query without credentials."""
    error = await refusal(fake.url, bearer_token_file=tmp_path / "token")
    assert error.reason is Reason.PROMETHEUS_UNAVAILABLE
    assert fake.requests == []


async def test_basic_authentication_and_headers(fake: Fake, tmp_path: Path) -> None:
    """User, password file and further headers are sent."""
    (tmp_path / "password").write_text("pass word\n")
    await ask(fake.url, username="ann", password_file=tmp_path / "password", headers={"X-Scope-OrgID": "gpu"})
    headers = fake.requests[0][1]
    assert headers["Authorization"] == "Basic YW5uOnBhc3Mgd29yZA=="
    assert headers["X-Scope-OrgID"] == "gpu"


async def test_the_environment_has_no_say(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is not used: the address is what was set."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await ask(fake.url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("prometheus:9090", id="without a scheme"),
        pytest.param("ftp://prometheus", id="another scheme"),
        pytest.param("http://", id="without a host"),
        pytest.param("http://ann:secret@prometheus", id="with a password, which messages would show"),
    ],
)
def test_an_impossible_address_is_refused(url: str) -> None:
    """The options say at once what no request can use."""
    with pytest.raises(ValueError, match="must"):
        PrometheusOptions(url)


@pytest.mark.parametrize(("status", "body", "reason", "said"), BAD)
async def test_a_bad_answer_makes_the_observation_incomplete(
    fake: Fake, status: int, body: object, reason: Reason, said: str
) -> None:
    """An observation never raises: it says what was wrong, and holds no signals."""
    fake.says(body, status)
    adapter = HttpPrometheus(PrometheusOptions(fake.url, timeout=5.0), monotonic)
    observation = await observe(adapter, [3600], NOW, JudgeSettings())
    adapter.close()
    assert not observation.complete
    assert observation.problem is reason
    assert said in observation.problems[0]
    assert not observation.windows


async def test_all_queries_together_have_a_limit(fake: Fake) -> None:
    """An observation ends in time even if every query is slow."""
    fake.act = hang
    adapter = HttpPrometheus(PrometheusOptions(fake.url, timeout=1.0), monotonic)
    observation = await observe(adapter, [3600], NOW, JudgeSettings(limit_seconds=0.2))
    adapter.close()
    assert observation.problem is Reason.PROMETHEUS_UNAVAILABLE
    assert "together" in observation.problems[0]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Files with a CA's certificate, and a leaf's certificate and key for 127.0.0.1."""
    now = datetime.now(UTC)
    ca = issue_ca("a test", now, timedelta(days=2))
    leaf = issue_leaf(ca, ["localhost"], ["127.0.0.1"], now, timedelta(days=2))
    folder = tmp_path_factory.mktemp("tls")
    files = {"ca.pem": ca.cert_pem, "leaf.pem": leaf.cert_pem, "key.pem": leaf.key_pem}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder / "ca.pem", folder / "leaf.pem", folder / "key.pem"


async def test_only_trusted_certificates_count(fake: Fake, authority: tuple[Path, Path, Path]) -> None:
    """With its CA a server is asked; without, nothing is sent to it."""
    ca, certificate, key = authority
    with FaultProxy(fake.url, certificate, key) as proxy:
        assert await ask(proxy.url, ca_file=ca)
        asked = len(fake.requests)
        error = await refusal(proxy.url)
    assert "certificate verify failed" in str(error)
    assert len(fake.requests) == asked


async def test_a_server_may_demand_a_certificate(
    fake: Fake, authority: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Ours is shown, a renewed one with the next connection; without one nothing is answered."""
    ca, certificate, key = authority
    clients = issue_ca("clients", datetime.now(UTC), timedelta(days=2))
    own = {"cert_file": tmp_path / "own.crt", "key_file": tmp_path / "own.key"}

    def show(pair: KeyPair) -> None:
        own["cert_file"].write_bytes(pair.cert_pem)
        own["key_file"].write_bytes(pair.key_pem)

    (tmp_path / "clients.crt").write_bytes(clients.cert_pem)
    with FaultProxy(fake.url, certificate, key, clients=tmp_path / "clients.crt") as proxy:
        show(client_pair(clients, "reaper", datetime.now(UTC)))
        assert await ask(proxy.url, ca_file=ca, **own)
        asked = len(fake.requests)
        assert (await refusal(proxy.url, ca_file=ca)).reason is Reason.PROMETHEUS_UNAVAILABLE
        show(client_pair(issue_ca("others", datetime.now(UTC), timedelta(days=2)), "x", datetime.now(UTC)))
        assert (await refusal(proxy.url, ca_file=ca, **own)).reason is Reason.PROMETHEUS_UNAVAILABLE
        assert len(fake.requests) == asked
        own["key_file"].unlink()
        assert "key" in str(await refusal(proxy.url, ca_file=ca, **own))


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    """It would be found out with the first query only."""
    with pytest.raises(ValueError, match="private key"):
        PrometheusOptions("https://a", cert_file=tmp_path / "x")
