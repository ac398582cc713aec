from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runtime.kube import ApiError, ApiUnreachable, KubeClient

PODS = "/api/v1/pods"
Write = Callable[..., Path]


async def test_a_request_carries_its_query_and_body(fake_api: Any, client: KubeClient) -> None:
    """Booleans are spelled as the API server reads them, bodies are JSON of the type given."""
    fake_api.on("PATCH", PODS, fake_api.json({"ok": 1}))
    response = await client.request(
        "PATCH",
        PODS,
        query={"dryRun": "All", "force": True},
        body={"a": 1},
        content_type="application/merge-patch+json",
    )
    method, path, query, headers, body = fake_api.requests[0]
    assert (method, path, query) == ("PATCH", PODS, {"dryRun": "All", "force": "true"})
    assert (headers["Content-Type"], body) == ("application/merge-patch+json", b'{"a":1}')
    assert response.decode(dict[str, int]) == {"ok": 1}


async def test_get_decodes_into_the_type_asked_for(fake_api: Any, client: KubeClient) -> None:
    """One call reads and decodes."""
    fake_api.on("GET", PODS, fake_api.json({"items": []}))
    assert await client.get(PODS, dict[str, list[int]]) == {"items": []}


@pytest.mark.parametrize(
    "name", ["hang", "reset", "truncated", "html", "html 502", "redirect", "text for JSON"]
)
async def test_no_readable_answer_is_unreachable(name: str, fake_api: Any, client: KubeClient) -> None:
    """A hung, cut, foreign or redirecting answer is never taken for one of the API server."""
    answers = {
        "hang": fake_api.hang(),
        "reset": fake_api.reset(),
        "truncated": fake_api.truncated('{"items": ['),
        "html": fake_api.text("<html>login</html>"),
        "html 502": fake_api.text("<html>bad gateway</html>", 502),
        "redirect": fake_api.text("moved", 302, "text/plain", Location="/other"),
        "text for JSON": fake_api.text("hello", 200, "text/plain"),
    }
    fake_api.on("GET", PODS, answers[name])
    with pytest.raises(ApiUnreachable, match=PODS):
        await client.request("GET", PODS, timeout=0.2)


async def test_a_closed_port_is_unreachable(kubeconfig: Write, closed_port: int) -> None:
    """Nobody listens there."""
    async with await KubeClient.connect(kubeconfig(f"http://127.0.0.1:{closed_port}")) as client:
        with pytest.raises(ApiUnreachable):
            await client.request("GET", PODS)


async def test_a_missing_api_group_is_a_404_of_the_api_server(client: KubeClient) -> None:
    """The API server answers in plain text where a CRD is not installed."""
    with pytest.raises(ApiError, match="404: page not found") as caught:
        await client.request("GET", "/apis/gpu-tenure.io/v1alpha1/gpupolicies")
    assert caught.value.status == 404


async def test_a_404_in_html_is_not_taken_for_a_missing_object(fake_api: Any, client: KubeClient) -> None:
    """A proxy's page must not make a pod look gone."""
    fake_api.on("GET", PODS, fake_api.text("<html>not found</html>", 404))
    with pytest.raises(ApiUnreachable, match="not by an API server"):
        await client.request("GET", PODS)


async def test_the_token_goes_to_the_api_server_alone(
    secure_api: Any, fake_api: Any, authority: tuple[Path, Path, Path], kubeconfig: Write
) -> None:
    """A redirect to another host is not followed, so the token cannot travel there."""
    secure_api.on("GET", PODS, secure_api.text("", 307, "text/plain", Location=f"{fake_api.url}/steal"))
    path = kubeconfig(
        secure_api.url, {"token": "secret-token"}, **{"certificate-authority": str(authority[0])}
    )
    async with await KubeClient.connect(path) as client:
        with pytest.raises(ApiUnreachable):
            await client.request("GET", PODS)
    assert secure_api.requests[0][3]["Authorization"] == "Bearer secret-token"
    assert fake_api.requests == []


async def test_without_tls_no_token_is_sent(fake_api: Any, kubeconfig: Write) -> None:
    """Over plain HTTP everybody on the way could read it."""
    fake_api.on("GET", PODS, fake_api.json({}))
    async with await KubeClient.connect(kubeconfig(fake_api.url, {"token": "secret-token"})) as client:
        await client.request("GET", PODS)
    assert "Authorization" not in fake_api.requests[0][3]


async def test_netrc_and_proxy_variables_of_the_session_are_not_used(
    secure_api: Any,
    authority: tuple[Path, Path, Path],
    kubeconfig: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A netrc entry for the same host neither replaces nor joins the token."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login l password p")
    monkeypatch.setenv("NETRC", str(netrc))
    secure_api.on("GET", PODS, secure_api.json({}))
    path = kubeconfig(secure_api.url, {"token": "t"}, **{"certificate-authority": str(authority[0])})
    async with await KubeClient.connect(path) as client:
        await client.request("GET", PODS)
    assert secure_api.requests[0][3]["Authorization"] == "Bearer t"


async def test_a_server_of_another_authority_is_refused(secure_api: Any, kubeconfig: Write) -> None:
    """TLS is verified, so nothing is sent to whoever answers."""
    async with await KubeClient.connect(kubeconfig(secure_api.url, {"token": "t"})) as client:
        with pytest.raises(ApiUnreachable, match="Certificate"):
            await client.request("GET", PODS)
    assert secure_api.requests == []


class Expiring(NamedTuple):
    """A kubeconfig with a token file, and answers of 401: before the first of them the file is renewed."""

    kubeconfig: Path
    renew: Callable[[Any], Any]
    refuse: Callable[[Any], Any]


@pytest.fixture
def expiring(
    secure_api: Any, authority: tuple[Path, Path, Path], kubeconfig: Write, tmp_path: Path
) -> Expiring:
    """A token that has just expired."""
    token = tmp_path / "token"
    token.write_text("old\n")
    path = kubeconfig(
        secure_api.url, {"tokenFile": str(token)}, **{"certificate-authority": str(authority[0])}
    )
    refuse = secure_api.json({"kind": "Status", "reason": "Unauthorized", "code": 401}, 401)

    async def renew(request: Any) -> Any:
        token.write_text("new\n")
        return await refuse(request)

    return Expiring(path, renew, refuse)


async def test_a_refused_token_is_renewed_once(secure_api: Any, expiring: Expiring) -> None:
    """A token file is read again, and a second 401 is the answer."""
    secure_api.on("GET", PODS, expiring.renew, secure_api.json({}), expiring.refuse)
    async with await KubeClient.connect(expiring.kubeconfig) as client:
        await client.request("GET", PODS)
        sent = [headers["Authorization"] for *_, headers, _ in secure_api.requests]
        assert sent == ["Bearer old", "Bearer new"]
        with pytest.raises(ApiError, match="Unauthorized"):
            await client.request("GET", PODS)
    assert len(secure_api.requests) == 4


async def test_a_stream_with_an_expired_token_begins_again_with_a_new_one(
    secure_api: Any, expiring: Expiring
) -> None:
    """Watches outlive tokens; a second refusal is the answer."""
    stream = secure_api.stream({"a": 1}, then="end")
    secure_api.on("GET", PODS, expiring.renew, stream, expiring.refuse, watch=True)
    async with await KubeClient.connect(expiring.kubeconfig) as client:
        assert [line async for line in client.stream(PODS, {"watch": True})] == [b'{"a": 1}']
        sent = [headers["Authorization"] for *_, headers, _ in secure_api.requests]
        assert sent == ["Bearer old", "Bearer new"]
        with pytest.raises(ApiError, match="Unauthorized"):
            await anext(client.stream(PODS, {"watch": True}))
    assert len(secure_api.requests) == 4


async def test_a_stream_yields_lines_across_chunks(fake_api: Any, client: KubeClient) -> None:
    """Lines come as they are completed, also those of several MiB."""
    big = "x" * (3 * 1024 * 1024)
    fake_api.on("GET", PODS, fake_api.stream('{"a"', ':1}\n{"b":2}\n', f'"{big}"\n', then="end"))
    lines = [line async for line in client.stream(PODS)]
    assert lines[:2] == [b'{"a":1}', b'{"b":2}']
    assert len(lines[2]) == len(big) + 2


@pytest.mark.parametrize("name", ["cut", "ended within a line", "silent", "html"])
async def test_a_broken_stream_raises_after_its_whole_lines(
    name: str, fake_api: Any, client: KubeClient
) -> None:
    """What came complete is given, then the break is told."""
    answers = {
        "cut": fake_api.stream("1\n", then="cut"),
        "ended within a line": fake_api.stream("1\n{", then="end"),
        "silent": fake_api.stream("1\n", then="stay"),
        "html": fake_api.text("<html>1</html>"),
    }
    fake_api.on("GET", PODS, answers[name])
    lines: list[bytes] = []
    with pytest.raises(ApiUnreachable):  # noqa: PT012 - the lines before the break count
        async for line in client.stream(PODS, idle_timeout=0.2):
            lines.append(line)  # noqa: PERF401 - those before the break count
    assert lines == ([] if name == "html" else [b"1"])


async def test_a_refused_stream_raises_the_refusal(fake_api: Any, client: KubeClient) -> None:
    """410 at the start of a watch is the API server's own answer."""
    fake_api.on("GET", PODS, fake_api.json({"code": 410, "reason": "Expired"}, 410))
    with pytest.raises(ApiError, match="410 Expired"):
        async for _ in client.stream(PODS):
            pass
