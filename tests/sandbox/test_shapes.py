"""The series of the exporters, as a scrape would read them."""

from __future__ import annotations

from itertools import chain

from sandbox.activity import parse_activity
from sandbox.devices import Assignment, GpuPod, Node, assign
from sandbox.history import lines
from sandbox.prometheus import ScrapeJob, scraped_labels
from sandbox.shapes import SHAPES, Series, View, dcgm_free, exposition
from sandbox.sources import SOURCES, scrape_jobs

NOW = 1_800_000_000.0
GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.5gb"
NODES = [Node("n", {GPU: 4}), Node("m", {MIG: 14}, 7), Node("h", {GPU: 20}, 10)]


def view(activity: str, node: str = "n", resource: str = GPU, count: int = 1, exporter: str = "dcgm") -> View:
    """What an exporter sees of one pod."""
    pod = GpuPod(
        "team", "p", "u", node, (("main", resource, count),), NOW - 7200, NOW - 10, exporter=exporter
    )
    held = assign(Assignment(), NODES, [pod])
    return View(NODES, held.holdings([pod]), {"u": parse_activity(activity, NOW)}, NOW, 1.0)


def by_name(shape: str, seen: View) -> dict[str, list[Series]]:
    """All series of a shape by metric."""
    found: dict[str, list[Series]] = {}
    for one in SHAPES[shape](seen):
        found.setdefault(one.name, []).append(one)
    return found


def test_dcgm_names_pod_and_device() -> None:
    """Utilization is in percent and profiled activity a ratio, both with the labels that attribute them."""
    found = by_name("dcgm", view("busy,idle", count=2))
    assert [one.value for one in found["DCGM_FI_DEV_GPU_UTIL"]] == [96.0, 0.0]
    assert [one.value for one in found["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]] == [0.96, 0.0]
    labels = found["DCGM_FI_DEV_GPU_UTIL"][0].labels
    assert {key: labels[key] for key in ("namespace", "pod", "container", "Hostname")} == {
        "namespace": "team",
        "pod": "p",
        "container": "main",
        "Hostname": "n",
    }
    assert len({one.labels["UUID"] for one in found["DCGM_FI_DEV_GPU_UTIL"]}) == 2


def test_mig_instances_have_no_device_utilization() -> None:
    """Only the profiling metrics exist on them, with the instance in two labels."""
    found = by_name("dcgm", view("busy", "m", MIG))
    assert "DCGM_FI_DEV_GPU_UTIL" not in found
    assert found["DCGM_FI_PROF_GR_ENGINE_ACTIVE"][0].labels["GPU_I_PROFILE"] == "1g.5gb"


def test_sharers_of_a_device_all_get_its_values() -> None:
    """Time-slicing: the exporter cannot tell who of two was busy."""
    pods = [
        GpuPod("team", name, name, "h", (("main", GPU, 1),), NOW - 7200 + n, NOW - 10)
        for n, name in enumerate(("busy", "idle"))
    ]
    held = assign(Assignment(), NODES, pods).holdings(pods)
    profiles = {name: parse_activity(name, NOW) for name in ("busy", "idle")}
    found = by_name("dcgm", View(NODES, held, profiles, NOW, 1.0))
    assert {one.labels["pod"]: one.value for one in found["DCGM_FI_DEV_GPU_UTIL"]} == {"busy": 96, "idle": 96}
    assert {one.value for one in found["DCGM_FI_DEV_FB_USED"]} == {16 * 1024 + 400}


def test_free_devices_are_printed_without_a_pod() -> None:
    """Every device of every node is printed once, held or not."""
    seen = view("busy", count=2)
    held = by_name("dcgm", seen)["DCGM_FI_DEV_FB_USED"]
    free = [one for one in dcgm_free(seen) if one.name == "DCGM_FI_DEV_FB_USED"]
    keys = [(one.labels["UUID"], one.labels.get("GPU_I_ID")) for one in chain(held, free)]
    assert len(keys) == len(set(keys)) == 4 + 14 + 2
    assert not any("pod" in one.labels for one in free)


def test_hami_prints_container_host_and_scheduler_series() -> None:
    """A false zero of the container is contradicted by host and last kernel."""
    found = by_name("hami", view("hami-false-zero", "h", exporter="hami"))
    assert found["hami_container_device_utilization_ratio"][0].value == 0
    assert found["hami_host_gpu_utilization_ratio"][0].value == 96
    assert found["hami_container_last_kernel_elapsed_seconds"][0].value == 1
    assert (
        found["hami_host_gpu_utilization_ratio"][0].labels["device_uuid"]
        == found["hami_container_device_utilization_ratio"][0].labels["device_uuid"]
    )


def test_a_silent_share_is_allocated_and_nothing_else() -> None:
    """HAMi has no container series before the first call; the scheduler's exists from allocation on."""
    found = by_name("hami", view("silent", "h", exporter="hami"))
    assert "hami_vgpu_memory_allocated_bytes" in found
    assert "hami_container_device_utilization_ratio" not in found


def test_legacy_hami_has_its_own_names() -> None:
    """Before 2.9 metrics and labels were called differently."""
    found = by_name("hami-legacy", view("busy", "h", exporter="hami-legacy"))
    assert found["Device_utilization_desc_of_container"][0].labels["podname"] == "p"
    assert found["HostCoreUtilization"][0].value == 96


def test_amd_prints_percent_and_megabytes() -> None:
    """Activity in percent, memory in MB."""
    found = by_name("amd", view("busy", exporter="amd"))
    assert found["gpu_gfx_activity"][0].value == 96
    assert found["gpu_total_vram"][0].value == 80 * 1024


def test_the_text_has_one_type_line_per_metric_and_escapes_labels() -> None:
    """A scrape would fail otherwise."""
    text = exposition([Series("a", {"x": 'q"\\\n'}, 1.0), Series("a", {"x": "z"}, 2.5, counter=False)])
    assert text.splitlines() == [
        "# HELP a Simulated.",
        "# TYPE a gauge",
        'a{x="q\\"\\\\\\n"} 1.0',
        'a{x="z"} 2.5',
    ]


def test_labels_after_a_scrape_depend_on_honor_labels() -> None:
    """Off: the workload is in exported_ labels. On: the exporter's own names are gone."""
    labels = {"pod": "p", "gpu": "0"}
    target = {"pod": "exporter-0", "namespace": "gpu-operator"}
    off = scraped_labels(ScrapeJob("j", "t", labels=target), labels)
    on = scraped_labels(ScrapeJob("j", "t", honor_labels=True, labels=target), labels)
    assert (off["exported_pod"], off["pod"]) == ("p", "exporter-0")
    assert (on["pod"], on["namespace"], "exported_pod" in on) == ("p", "gpu-operator", False)


def test_the_past_ends_where_life_begins() -> None:
    """Samples lie between the start of the pod and its creation, one per interval, on whole intervals."""
    jobs = {job.name: job for job in scrape_jobs("127.0.0.1:1")}
    written = [line for line in lines(view("idle"), NOW - 3600, jobs) if "GPU_UTIL" in line]
    times = [float(line.split()[-1]) for line in written]
    assert times == [NOW - 3599 + n for n in range(3600 - 10 - 1)]
    assert all('exported_pod="p"' in line and 'job="dcgm"' in line for line in written)


def test_every_source_has_a_shape_and_a_job() -> None:
    """Data that refers to nothing would only show at run time."""
    assert {source.shape for source in SOURCES.values()} == set(SHAPES)
    assert [job.name for job in scrape_jobs("x:1")] == list(SOURCES)
