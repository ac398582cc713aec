"""Entries of `images.allowed`: the schema takes what the policy package takes, and nothing else."""

from __future__ import annotations

import random

import pytest

from policy.errors import InvalidError
from policy.gpupolicy import parse_policy
from sandbox.cluster import Sandbox

POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
DRAWN = 300
HOSTS = (
    "",
    "reg.example/",
    "reg.example:5000/",
    "[fe80::1]:5000/",
    "REG.example/",
    "-reg/",
    "reg..a/",
    "*.a/",
)
PATHS = ("python", "team/app", "a__b/c-d", "A/b", "a//b", "_a", "a b", "", "library/", "team/*", "team/**")
ENDS = (
    "",
    "",
    ":3.12",
    ":-x",
    ":" + "t" * 129,
    f"@sha256:{'0' * 64}",
    "@sha256:0",
    f":1@sha256:{'a' * 64}",
    "/",
    "é",
)

pytestmark = pytest.mark.usefixtures("release")


def test_schema_and_policy_package_agree(sandbox: Sandbox) -> None:
    """Random entries, right and wrong in each of their parts."""
    draw = random.Random(5)  # noqa: S311 - the same in each run
    entries = {draw.choice(HOSTS) + draw.choice(PATHS) + draw.choice(ENDS) for _ in range(DRAWN)}
    taken = 0
    for entry in sorted(entries):
        body = {
            "apiVersion": "gpu-tenure.io/v1alpha1",
            "kind": "GPUPolicy",
            "metadata": {"name": "tried"},
            "spec": {"images": {"allowed": [entry]}},
        }
        reply = sandbox.api().raw("POST", f"{POLICIES}?dryRun=All", body)
        try:
            parse_policy(body)
            readable = True
        except InvalidError:
            readable = False
        assert (reply.status == 201) is readable, (entry, reply.text)
        taken += readable
    assert len(entries) // 10 < taken < len(entries) * 9 // 10
