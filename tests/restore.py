"""Puts etcd back to a moment of before, as administrators do from a backup."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from sandbox.cluster import Sandbox
from sandbox.deadline import wait


class EtcdCopy:
    """A copy of what the API server holds, and the way back to it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._etcd = sandbox.dir / "etcd"
        self._copy = sandbox.dir / "etcd-copy"

    def take(self) -> None:
        """Takes the copy, while etcd does not run."""
        self._sandbox.stop("etcd")
        shutil.copytree(self._etcd, self._copy)
        self._sandbox.start_part("etcd")
        wait(lambda: self._sandbox.api().raw("GET", "/readyz").status == 200, 60, "the API server is back")

    def put_back(self, asleep: Sequence[str] = ()) -> None:
        """Puts the copy back, with the API server stopped; the parts `asleep` do not run meanwhile.

        Who sees the server away for long lists anew, but a watch that is taken up at once at a version that
        is not there yet is accepted, and says nothing.
        """
        for name in asleep:
            self._sandbox.suspend(name)
        self._sandbox.stop("apiserver")
        self._sandbox.stop("etcd")
        shutil.rmtree(self._etcd)
        shutil.copytree(self._copy, self._etcd)
        self._sandbox.start_part("etcd")
        self._sandbox.start_part("apiserver")
        for name in asleep:
            self._sandbox.resume(name)
