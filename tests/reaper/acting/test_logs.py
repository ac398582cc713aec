"""Addresses of logs: placeholders, quoting, and templates that are refused at start."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from policy.errors import InvalidError
from reaper.logs import check_template, logs_url
from reaper.owners import root_of_pod
from reaper.reclaim import spec_of
from reaper.settings import ENV_PREFIX, ReaperSettings
from runtime.settings import load
from tests.reaper.acting.made import NOON, due_subject, pod_of

GRAFANA = "https://grafana.example.com/explore?ns={namespace}&pod={pod}&from={from_ms}&to={to_ms}"


def test_an_address_covers_the_life_of_the_pod() -> None:
    """From its creation until ten minutes after the decision."""
    pod = pod_of("a")
    assert logs_url(GRAFANA, pod, root_of_pod(pod), NOON) == (
        "https://grafana.example.com/explore?ns=team-a&pod=a&from=1740744000000&to=1740831000000"
    )
    other = "http://logs/{uid}/{node}/{owner}#{from}/{to}"
    assert logs_url(other, pod, root_of_pod(pod), NOON) == (
        "http://logs/uid-team-a-a/node-a/a#2025-02-28T12%3A00%3A00Z/2025-03-01T12%3A10%3A00Z"
    )


def test_a_record_keeps_the_address() -> None:
    """Whoever reads the record needs no template."""
    subject = due_subject("a")
    assert spec_of(subject, NOON, logs=GRAFANA)["logsURL"].startswith("https://grafana.example.com/explore?")
    assert "logsURL" not in spec_of(subject, NOON)
    assert "logsURL" not in spec_of(subject, NOON, logs="https://x/" + "{uid}" * 1000)


@given(st.text())
def test_no_name_leads_elsewhere(name: str) -> None:
    """Whatever an owner is called, host, path and the other parameters stay as they are."""
    pod = pod_of("a")
    root = structs.replace(root_of_pod(pod), name=name.encode(errors="replace").decode())
    url = logs_url("https://logs.example.com/x?owner={owner}&pod={pod}", pod, root, NOON)
    assert url is not None
    parts = urlsplit(url)
    assert (parts.netloc, parts.path, parts.fragment) == ("logs.example.com", "/x", "")
    assert parse_qs(parts.query, keep_blank_values=True) == {"owner": [root.name], "pod": ["a"]}


REFUSED = [
    pytest.param("https://x/{container}", "{container} is no placeholder", id="an unknown placeholder"),
    pytest.param("https://x/{pod.__class__}", "is no placeholder", id="an attribute"),
    pytest.param("https://x/{pod!r}", "is no placeholder", id="a conversion"),
    pytest.param("https://x/{pod:>100}", "is no placeholder", id="a format"),
    pytest.param("https://x/{}", "is no placeholder", id="no name"),
    pytest.param("https://x/{pod", "cannot be read", id="a brace that is open"),
    pytest.param("https://{namespace}.example.com/", "must be an address", id="a placeholder in the host"),
    pytest.param("https://me:secret@x/{pod}", "must be an address", id="a password"),
    pytest.param("javascript:alert({pod})", "must be an address", id="another scheme"),
    pytest.param("/logs/{pod}", "must be an address", id="no host"),
]


@pytest.mark.parametrize(("template", "said"), REFUSED)
def test_a_wrong_template_is_refused_at_start(template: str, said: str) -> None:
    """With the setting and a sentence."""
    with pytest.raises(ValueError, match=r"placeholder|read|address") as raised:
        check_template(template)
    assert said in str(raised.value)
    flags = {"prometheus_url": "http://x:9090", "logs_url_template": template}
    with pytest.raises(InvalidError) as invalid:
        load(ReaperSettings, flags, None, ENV_PREFIX, {})
    assert "logs-url-template" in str(invalid.value)
