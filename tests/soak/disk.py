"""The small full disk of the soak: a file system of its own where there are rights to mount one, else a refusing file."""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from observer.persist import StateError, StateFile
from router_contract.canary_results import CanaryState
from router_contract.judging import Stored
from router_contract.targets import DeploymentKey

KIB = 8192
"""Room for the two files of SQLite while all is well: its log grows to 1000 pages of 4 KiB before it begins anew."""
SAVED_WITHIN = 10.0
"""Seconds after recovery within which a save must be done."""
NAMESPACE = Path("/proc/self/ns/mnt")


class FullDisk(StateFile):
    """A state file whose disk may be full: really so when ``real``, else it refuses to save.

    ``refused`` counts what could not be written, ``lost_samples`` the canary samples among it, ``saves`` what was saved.
    """

    def __init__(self, path: Path, *, real: bool) -> None:
        super().__init__(path)
        self._real = real
        self._filler = path.with_name("filler")
        self._counted = 0
        self._freed = 0.0
        self._saves_before = 0
        self.full = False
        self.saves = 0
        self.refused = 0
        self.lost_samples = 0

    @property
    def form(self) -> str:
        """Which of both it is, in words."""
        return f"a tmpfs of {KIB} KiB" if self._real else "a state file that refuses to save, no right to mount"

    @property
    def busy(self) -> bool:
        """Whether it is full, or was and has not been looked at since."""
        return self.full or self._freed > 0

    def fill(self) -> None:
        """Leave no room. The log of SQLite is emptied first, for it would write over what it has."""
        with self._using:
            if self._real:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                _write_until_full(self._filler)
            self.full = True

    def free(self) -> None:
        """There is room again."""
        self._filler.unlink(missing_ok=True)
        self._saves_before = self.saves
        self.full, self._freed = False, time.monotonic()

    def recovered(self) -> str | None:
        """After `free`: what is wrong, empty when it was saved and can be read, ``None`` when that is not known yet."""
        if self.full or not self._freed:
            return None
        if self.saves == self._saves_before:
            late = time.monotonic() - self._freed
            if late <= SAVED_WITHIN:
                return None
            self._freed = 0.0
            return f"nothing was saved in the {late:.1f} s since there is room again"
        self._freed = 0.0
        with self._using:
            try:
                with StateFile(self._path) as again:
                    rows = again.load()
                    same = again._written == self._written
            except StateError as error:
                return str(error)
            if again.damaged:
                return again.damaged[0]
        return (
            "" if rows and same else f"{len(rows)} rows are read, not what was saved last ({len(self._written)} rows)"
        )

    def save(self, stored: Mapping[DeploymentKey, Stored]) -> int:
        """As `StateFile.save`."""
        try:
            if self.full and not self._real:
                raise StateError("the disk is full (on purpose)")
            changed = super().save(stored)
        except StateError:
            self.refused += 1
            raise
        self.saves += 1
        return changed

    def swap_canary(self, key: DeploymentKey, version: int, state: CanaryState) -> bool:
        """As `StateFile.swap_canary`; a state with one sample more that is refused is a sample that does not count."""
        try:
            swapped = super().swap_canary(key, version, state)
        except StateError:
            self.refused += 1
            self.lost_samples += state.counted > self._counted
            raise
        self._counted = state.counted
        return swapped


@contextlib.contextmanager
def small_disk(folder: Path, *, real: bool) -> Iterator[None]:
    """A small file system at a folder, gone afterwards; the folder as it is when not ``real``."""
    if real:
        subprocess.run([_tool("mount"), *_tmpfs(folder)], check=True)
    try:
        yield
    finally:
        if real:
            subprocess.run([_tool("umount"), str(folder)], check=True)


def namespace() -> str:
    """The mount namespace of this process; empty where there is no such thing."""
    try:
        return str(NAMESPACE.readlink())
    except OSError:
        return ""


def with_own_mounts(script: str, arguments: list[str]) -> list[str]:
    """The command that runs a script in a mount namespace of its own; empty when that, or a mount in it, is not allowed.

    What is mounted in it ends with its last process, however that ends.
    """
    if not (namespace() and all(shutil.which(each) for each in ("unshare", "mount", "umount"))):
        return []
    alone = [_tool("unshare"), "--mount"]
    with tempfile.TemporaryDirectory(prefix="observer-soak-") as folder:
        tried = subprocess.run([*alone, _tool("mount"), *_tmpfs(Path(folder))], capture_output=True, check=False)
    return [*alone, sys.executable, script, *arguments] if tried.returncode == 0 else []


def _write_until_full(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _tmpfs(folder: Path) -> list[str]:
    return ["-t", "tmpfs", "-o", f"size={KIB}k,mode=0700", "tmpfs", str(folder)]


def _tool(name: str) -> str:
    return shutil.which(name) or name
