"""The ways to stop owners in the chart's guard and rights are those of the reaper's table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from reaper.stopways import BUILT_IN, Way
from tests.manifests.rendered import of_kind

Render = Callable[..., list[dict[str, Any]]]
Object = dict[str, Any]


def allowed(objects: list[Object], variable: str) -> dict[str, list[str]]:
    """The map by "group/resource/" in a variable of the guard on the reaper's account."""
    spec = of_kind(objects, "ValidatingAdmissionPolicy")["gpu-tenure-guard-reaper"]["spec"]
    (expression,) = [one["expression"] for one in spec["variables"] if one["name"] == variable]
    found: dict[str, list[str]] = json.JSONDecoder().raw_decode(expression.strip())[0]
    return found


def patched(objects: list[Object]) -> set[tuple[str, str]]:
    """Groups and resources of other than pods that the reaper's account may patch."""
    rules = of_kind(objects, "ClusterRole")["gpu-tenure-reaper"]["rules"]
    able = [rule for rule in rules if "patch" in rule["verbs"]]
    pairs = {(group, name) for rule in able for group in rule["apiGroups"] for name in rule["resources"]}
    return {(group, name) for group, name in pairs if group in {way.group for way in BUILT_IN}}


def expected(section: str) -> dict[str, list[str]]:
    """What the table sets in a section of an object: the first key of the field below it."""
    depth = 2 if section == "spec" else 3
    ways = [way for way in BUILT_IN if way.field.startswith(f"/{section}/")]
    return {target(way): [way.field.split("/")[depth]] for way in ways}


def target(way: Way) -> str:
    """How the guard names a kind."""
    return f"{way.group}/{way.resource}/"


def test_the_guard_lets_the_reaper_set_what_its_table_sets(render: Render) -> None:
    """The same fields and annotations of the same kinds, to the same values."""
    objects = render()
    assert allowed(objects, "stopFields") == expected("spec")
    assert allowed(objects, "stopAnnotations") == expected("metadata")
    guard = of_kind(objects, "ValidatingAdmissionPolicy")["gpu-tenure-guard-reaper"]["spec"]
    said = [one["message"] for one in guard["validations"]]
    for way in BUILT_IN:
        if way.field.startswith("/spec/"):
            field = way.field[1:].replace("/", ".")
            assert any(f"only set {field} to {json.dumps(way.value)}, which stops" in one for one in said)


def test_the_rights_to_patch_owners_are_those_of_the_table(render: Render) -> None:
    """Nothing more; and none of them where owners are not to be stopped."""
    assert patched(render()) == {(way.group, way.resource) for way in BUILT_IN}
    assert patched(render({"reaper": {"stop": {"enabled": False}}})) == set()
