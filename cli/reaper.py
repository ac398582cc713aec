"""The command `gpu-tenure reaper`: reads settings, builds the reaper, runs it; decides nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.running import identity_of, run_component
from cli.setting_flags import FILE, give_flags, parameter
from reaper.settings import ENV_PREFIX, ReaperSettings


def run(*, once: bool, settings_file: Path | None, flags: dict[str, object]) -> None:
    """Load the settings and run cycles, for ever or once; exits 1 if it held or failed."""
    from runtime import log
    from runtime.settings import load

    settings = load(ReaperSettings, flags, settings_file, ENV_PREFIX)
    log.configure(settings.log_format, settings.log_level, fields={"component": "reaper"})
    sys.exit(run_component("reaper", lambda stop: _main(settings, stop, once=once)))


async def _main(settings: ReaperSettings, stop: asyncio.Event, *, once: bool) -> int:
    from reaper.service import run_loop, run_once
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient

    identity = identity_of(settings.identity)
    clock = SystemClock()
    async with await KubeClient.connect(settings.kubeconfig, settings.context) as client:
        if once:
            return await run_once(client, settings, clock, identity)
        await run_loop(client, settings, clock, identity, stop)
        return 0


def reaper(**given: object) -> None:
    """Take GPUs back from pods that Prometheus shows to be idle: warn first, then evict, or stop their owner.

    Without `--no-dry-run` it only says what it would do. It runs until it is stopped, as one of several
    replicas of which one leads; or with `--once` a single cycle, as a CronJob: that warns only about what an
    earlier run found idle, and acts only on warnings of earlier runs.

    Each option may also be a variable of the environment, such as `GPU_TENURE_REAPER_CYCLE`, or a key of the
    settings file, such as `cycle`. A flag wins over a variable, and that over the file.
    """
    once, file = bool(given.pop("once")), given.pop(FILE)
    run(once=once, settings_file=file if isinstance(file, Path) else None, flags=given)


ONCE = parameter(
    "once",
    Annotated[
        bool,
        typer.Option(
            "--once",
            help="Run one cycle, then exit: 0 if it saw everything, also while paused;"
            " 1 if anything could not be read, or another reaper leads.",
        ),
    ],
    default=False,
)
give_flags(reaper, ReaperSettings, ONCE)
