"""What long-running commands share: the name of the process, and how it ends; knows no component."""

from __future__ import annotations

import sys
from asyncio import Event
from collections.abc import Awaitable, Callable

FAILED = 1
"""The exit code of what failed while it ran; what is asked for wrongly ends with `cli.failure.BAD_INPUT`."""


def identity_of(chosen: str | None) -> str:
    """Gives the name in a Lease that was chosen, or else one that no other replica has."""
    import secrets
    import socket

    return chosen or f"{socket.gethostname()}-{secrets.token_hex(4)}"


def run_component(name: str, main: Callable[[Event], Awaitable[int | None]]) -> int:
    """Runs `main(stop)` until it ends or a signal comes; returns the exit code.

    That is what `main` returns (None is 0); FAILED, after a line that says why, if a part of it fell, the API
    server gave no usable answer, a port is taken or a file is gone; 128 + the signal's number after a second
    signal.

    Raises:
        InvalidError: the kubeconfig cannot be used, or whatever settings `main` finds to be wrong.
    """
    from policy.errors import FieldError, InvalidError
    from runtime.kube import ApiError, ApiUnreachable
    from runtime.kubeconfig import KubeConfigError
    from runtime.lifecycle import PartFailed, run_until_signal

    try:
        return run_until_signal(main)
    except KubeConfigError as error:
        raise InvalidError([FieldError("--kubeconfig", str(error))]) from error
    except (ApiError, ApiUnreachable, OSError, PartFailed) as error:
        print(f"error: {name}: {error}", file=sys.stderr)
        return FAILED
