"""The doors differ in the webhook that is called, and in nothing else."""

from typing import Any

from bench.doors import DOORS, ENTRIES, MUTATED, MUTATING, OTHER, PATHS, configuration, pods
from bench.pods import USUAL
from bench.reviews import encode

CHART: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "zz-gpu-tenure", "resourceVersion": "7"},
    "webhooks": [
        {
            "name": "mutate.gpu-tenure.io",
            "clientConfig": {"url": "https://127.0.0.1:1/mutate", "caBundle": "Zg=="},
            "namespaceSelector": {"matchExpressions": []},
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "gpu-pods", "expression": "true"}],
        }
    ],
}


def test_each_server_gets_the_charts_own_rules() -> None:
    """But for address and namespace the configurations are equal, and the chart's is left as it was."""
    made = [configuration(CHART, door, PATHS[MUTATING], "127.0.0.1:2") for door in (MUTATED, OTHER)]
    hooks = [one["webhooks"][0] for one in made]
    assert {one["metadata"]["name"] for one in made} == {"zz-bench-ours", "zz-bench-other"}
    assert all("resourceVersion" not in one["metadata"] for one in made)
    assert [one.pop("namespaceSelector")["matchLabels"] for one in hooks] == [
        {"kubernetes.io/metadata.name": door.namespace} for door in (MUTATED, OTHER)
    ]
    assert hooks[0] == hooks[1]
    assert hooks[0]["clientConfig"] == {"url": "https://127.0.0.1:2/mutate", "caBundle": "Zg=="}
    assert (hooks[0]["failurePolicy"], hooks[0]["timeoutSeconds"]) == ("Fail", 30)
    assert CHART["webhooks"][0]["failurePolicy"] == "Ignore"


def test_doors_share_nothing() -> None:
    """Each has a name and a namespace of its own."""
    assert len({door.name for door in DOORS}) == len({door.namespace for door in DOORS}) == len(DOORS)


def test_the_pods_are_those_of_people_and_their_reviews_have_ten_kilobytes() -> None:
    """What the API server adds is not sent to it."""
    made = pods()
    assert {name.rsplit("-", 1)[0] for name in made} == {"bare", "asking"}
    assert all("managedFields" not in pod["metadata"] for pod in made.values())
    sizes = [len(encode(kind, ENTRIES)) for kind in USUAL if kind.controller is None]
    assert all(9_000 < size < 11_000 for size in sizes)
