"""Writes a Secret into a folder as the kubelet does for a volume; knows nothing of what is in it.

All files change at once: they are links into a folder that a link named `..data` points to.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import requests

from sandbox.api import Api, ApiError
from sandbox.deadline import wait

DATA = "..data"


class SecretVolume:
    """Follows a Secret by asking for it; like a kubelet it keeps the files of one that is gone."""

    def __init__(self, api: Api, path: str, folder: Path, seconds: float = 0.5) -> None:
        self.folder = folder
        self._api = api
        self._path = path
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._shown: Mapping[str, str] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="secret volume", daemon=True)
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=30)

    def wait_for(self, key: str, seconds: float = 60.0) -> Path:
        """Returns the file of a key once it is there."""
        path = self.folder / key
        wait(path.exists, seconds, f"{path.name} is in the volume")
        return path

    def update(self) -> None:
        """Looks at the Secret once."""
        data = (self._api.find(self._path) or {}).get("data") or {}
        if data and data != self._shown:
            self._show(data)
            self._shown = data

    def _follow(self) -> None:
        while not self._end.wait(self._seconds):
            # An API server that restarts is no reason to stop following.
            with contextlib.suppress(ApiError, requests.RequestException):
                self.update()

    def _show(self, data: Mapping[str, str]) -> None:
        """Fills a new folder and points the link at it in one step."""
        fresh = self.folder / f"..{next(self._numbers)}"
        fresh.mkdir()
        for key, value in data.items():
            (fresh / key).write_bytes(base64.b64decode(value))
        link = self.folder / "..data_tmp"
        link.symlink_to(fresh.name)
        old = (self.folder / DATA).resolve() if (self.folder / DATA).is_symlink() else None
        link.replace(self.folder / DATA)
        for key in data:
            if not (self.folder / key).is_symlink():
                (self.folder / key).symlink_to(Path(DATA) / key)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
