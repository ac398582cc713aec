"""Writes install.yaml from the chart, for people who install without Helm; knows no object of it.

`python manifests/render.py` writes; with `--check` it only says whether the file differs, and exits 1 if so.
Helm is built into the user's cache if it is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from sandbox.binaries import ensure  # noqa: E402 - the script runs from anywhere

CHART: Final = ROOT / "manifests" / "chart"
TARGET: Final = ROOT / "manifests" / "install.yaml"
NAMESPACE: Final = "gpu-tenure-system"
SETTINGS: Final = (
    "namespace.create=true",
    # Policies need their definition first, and an existing one is the administrator's.
    "policies.shipped=false",
    # To apply the file again must end no pause: nothing acts until `gpu-tenure unpause` makes the switch.
    "pause.create=false",
)
HEAD: Final = """\
# gpu-tenure, profile observe, for `kubectl apply --server-side -f`, or as a resource of a kustomization.
# Rendered from the chart by manifests/render.py: change that. docs/install.md says how to go on.
"""


def install_yaml() -> str:
    """The chart with the settings above, rendered."""
    helm = ensure(os.environ, ["helm"]).path("helm")
    argv = [helm, "template", "gpu-tenure", str(CHART), f"--namespace={NAMESPACE}"]
    argv += [f"--set={setting}" for setting in SETTINGS]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("# Source:")]
    return (
        HEAD
        + "\n".join(lines).replace(
            "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl"
        )
        + "\n"
    )


def main(arguments: list[str]) -> int:
    """Writes, or compares; returns the exit code."""
    wanted = install_yaml()
    if "--check" in arguments:
        if TARGET.read_text() == wanted:
            return 0
        print(
            f"{TARGET.relative_to(ROOT)} differs from the chart: run python manifests/render.py",
            file=sys.stderr,
        )
        return 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
