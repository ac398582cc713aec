"""What a reaper with one average would have killed; must not know gpu-tenure's own rule."""

import requests

# The rule that many scripts use: the mean of the last hour is below ten percent. Label names as scraped
# without honor_labels, which is what the exporters' own charts do.
RULES = (
    "avg_over_time(DCGM_FI_DEV_GPU_UTIL[1h]) < 10",
    "avg_over_time(hami_container_device_utilization_ratio[1h]) < 10",
)
TIMEOUT_SECONDS = 10


def doomed(prometheus_url: str) -> set[tuple[str, str]]:
    """Return namespace and name of every pod with a device that the naive rule calls idle."""
    found: set[tuple[str, str]] = set()
    for rule in RULES:
        answer = requests.get(
            f"{prometheus_url}/api/v1/query", params={"query": rule}, timeout=TIMEOUT_SECONDS
        )
        answer.raise_for_status()
        for series in answer.json()["data"]["result"]:
            labels = series["metric"]
            pod = labels.get("exported_pod")
            if pod:
                found.add((labels["exported_namespace"], pod))
    return found
