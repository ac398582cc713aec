import subprocess
import sys

import pytest

MINUTES = 9


@pytest.mark.real
@pytest.mark.timeout(MINUTES * 60)
def test_the_demo_ends_as_its_table_says(kubernetes: str) -> None:
    """From nothing, every incident ends as promised, and nothing but the expected is evicted."""
    argv = [sys.executable, "-m", "cli", "sandbox", "demo", f"--kubernetes={kubernetes}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert "✘" not in done.stdout
