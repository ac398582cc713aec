from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.kubeconfig import KubeConfigError, load_access

Write = Callable[..., Path]
SERVER = "https://127.0.0.1:6443"


async def test_the_given_file_wins_over_everything(kubeconfig: Write) -> None:
    """A flag is more than where the process happens to run."""
    access = await load_access(kubeconfig(f"{SERVER}/"), None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert access.host == SERVER
    assert await access.authorization() is None


async def test_the_kubeconfig_variable_is_read_from_the_given_environment(kubeconfig: Write) -> None:
    """Several files may be named; those that do not exist are passed over."""
    path = kubeconfig(SERVER, {"token": "t"})
    access = await load_access(None, None, {"KUBECONFIG": f"/does/not/exist:{path}"})
    assert await access.authorization() == "Bearer t"


@pytest.mark.parametrize(
    ("content", "context", "told"),
    [
        pytest.param(None, None, "no such file", id="no file"),
        pytest.param("a: [", None, "kubeconfig", id="no YAML"),
        pytest.param("{}", None, "current-context", id="nothing in it"),
        pytest.param("valid", "other", "other", id="a context that is not there"),
    ],
)
async def test_an_unusable_kubeconfig_is_one_sentence(
    content: str | None, context: str | None, told: str, kubeconfig: Write, tmp_path: Path
) -> None:
    """Whatever the library raises becomes our error and names the file."""
    path = kubeconfig(SERVER)
    if content is None:
        path = tmp_path / "missing"
    elif content != "valid":
        path.write_text(content)
    with pytest.raises(KubeConfigError, match=told) as caught:
        await load_access(path, context, {})
    assert str(path) in str(caught.value)


async def test_in_a_pod_without_a_token_it_says_so() -> None:
    """A pod whose service account is not mounted cannot work."""
    with pytest.raises(KubeConfigError, match="service account"):
        await load_access(
            None, None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        )


async def test_an_exec_plugin_without_expiry_runs_again_when_refused(
    kubeconfig: Write, tmp_path: Path
) -> None:
    """A token without an expiry is kept until the API server refuses it."""
    count = tmp_path / "count"
    plugin = tmp_path / "plugin"
    answer = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    )
    plugin.write_text(f"#!/bin/sh\necho x >> {count}\nprintf '{answer}' $(wc -l < {count})\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "args": []}}
    access = await load_access(kubeconfig(SERVER, user), None, {})
    assert await access.authorization() == "Bearer 1"
    assert await access.authorization() == "Bearer 1"
    assert await access.authorization(force=True) == "Bearer 2"


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        pytest.param({}, None, id="no variable, no proxy"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, "http://p:1", id="the proxy for https"),
        pytest.param({"https_proxy": "http://p:1"}, "http://p:1", id="in lower case too"),
        pytest.param({"HTTP_PROXY": "http://p:1"}, None, id="the proxy for http is another"),
        pytest.param(
            {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "127.0.0.1"}, None, id="not for hosts without proxy"
        ),
    ],
)
async def test_proxies_of_the_environment_are_used_as_by_other_clients(
    environ: dict[str, str], proxy: str | None, kubeconfig: Write
) -> None:
    """Kubectl on the same machine would take the same way."""
    assert (await load_access(kubeconfig(SERVER), None, environ)).proxy == proxy


async def test_the_proxy_of_the_cluster_wins(kubeconfig: Write) -> None:
    """What the kubeconfig says of its cluster is more specific."""
    path = kubeconfig(SERVER, **{"proxy-url": "http://own:1"})
    assert (await load_access(path, None, {"HTTPS_PROXY": "http://p:1"})).proxy == "http://own:1"


def test_the_models_of_the_library_are_not_imported() -> None:
    """They would cost every process 37 MB; and nothing half-imported is left for others."""
    code = (
        "import asyncio, sys, pathlib\n"
        "from runtime.kubeconfig import load_access\n"
        "try: asyncio.run(load_access(pathlib.Path('/missing')))\n"
        "except Exception: pass\n"
        "assert not [name for name in sys.modules if name.startswith('kubernetes_asyncio')]\n"
        "import kubernetes_asyncio.client\n"
        "kubernetes_asyncio.client.V1Pod\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
