"""The SQLite file outside a cluster: what judging must remember over a restart, one row for each deployment or canary.

The file carries a version. A newer one is refused in a sentence; a damaged row is named and left out, never guessed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from router_contract.canary_results import CanaryState
from router_contract.judging import Stored
from router_contract.targets import DeploymentKey

LOG_PAGES = 32
"""After how many pages of 4 KiB the log of writes goes back into the file."""
VERSION = 2
"""1 had no canaries; such a file gets their table."""


class StateError(Exception):
    """A state file that cannot be used; the text names it, what was found and what was wanted."""


class StateFile:
    """Use as a context manager. `save` writes only what changed, all of it or nothing.

    Calls may come from any thread; they wait for each other, so that closing never interrupts a save.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[DeploymentKey, bytes] = {}
        self._using = threading.Lock()
        self.damaged: tuple[str, ...] = ()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except sqlite3.Error as error:
            raise StateError(f"{path} cannot be used as the state file: {error}") from error

    def _prepare(self) -> None:
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found > VERSION:
            raise StateError(
                f"{self._path} has state version {found}; this observer reads up to {VERSION}: use a newer one"
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        # The log is written back into the file early: on a small disk a log of SQLite's own 4 MiB would fill it for good.
        self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS judged (namespace TEXT, name TEXT, stored TEXT NOT NULL, PRIMARY KEY (namespace, name))"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS canary (namespace TEXT, name TEXT, version INTEGER NOT NULL, state TEXT NOT NULL, "
            "PRIMARY KEY (namespace, name))"
        )
        self._db.execute(f"PRAGMA user_version = {VERSION}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._using:
            self._db.close()

    def load(self) -> dict[DeploymentKey, Stored]:
        """Everything that is stored. A row that does not decode is left out and named in ``damaged``."""
        found: dict[DeploymentKey, Stored] = {}
        damaged: list[str] = []
        for namespace, name, text in self._db.execute("SELECT namespace, name, stored FROM judged"):
            key = DeploymentKey(namespace, name)
            try:
                found[key] = msgspec.json.decode(text, type=Stored)
            except msgspec.MsgspecError as error:
                damaged.append(f"{self._path}: the stored state of {key} cannot be read: {error}")
                continue
            self._written[key] = msgspec.json.encode(found[key])
        self.damaged = tuple(damaged)
        return found

    def save(self, stored: Mapping[DeploymentKey, Stored]) -> int:
        """Keep these and forget all others; the number of rows that changed. Raises `StateError` on a full disk."""
        with self._using:
            return self._save(stored)

    def _save(self, stored: Mapping[DeploymentKey, Stored]) -> int:
        texts = {key: msgspec.json.encode(value) for key, value in stored.items()}
        changed = {key: text for key, text in texts.items() if self._written.get(key) != text}
        gone = [key for key in self._written if key not in texts]
        if not changed and not gone:
            return 0
        try:
            self._db.execute("BEGIN")
            self._db.executemany(
                "INSERT OR REPLACE INTO judged VALUES (?, ?, ?)",
                [(key.namespace, key.name, text.decode()) for key, text in changed.items()],
            )
            self._db.executemany(
                "DELETE FROM judged WHERE namespace = ? AND name = ?", [(key.namespace, key.name) for key in gone]
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StateError(f"{self._path} cannot be written: {error}") from error
        self._written = texts
        return len(changed) + len(gone)

    def canary(self, key: DeploymentKey) -> tuple[int, CanaryState | None]:
        """A canary's state and the version it has in the file; version 0 when there is none.

        ``key`` is the analysis's own namespace and name. A state that does not decode is ``None`` and named in
        ``damaged``; its version is kept, so that it can be replaced. Raises `StateError`.
        """
        with self._using:
            try:
                query = "SELECT version, state FROM canary WHERE namespace = ? AND name = ?"
                row = self._db.execute(query, (key.namespace, key.name)).fetchone()
            except sqlite3.Error as error:
                raise StateError(f"{self._path} cannot be read: {error}") from error
        if row is None:
            return 0, None
        try:
            return int(row[0]), msgspec.json.decode(row[1], type=CanaryState)
        except msgspec.MsgspecError as error:
            told = f"{self._path}: the state of the canary {key} cannot be read: {error}"
            self.damaged = (*(each for each in self.damaged if each != told), told)
            return int(row[0]), None

    def swap_canary(self, key: DeploymentKey, version: int, state: CanaryState) -> bool:
        """Store a canary's state as version ``version + 1`` if the file still has ``version`` (0: none yet).

        False: somebody else stored one in between, and nothing was changed. Raises `StateError` on a full disk.
        """
        text = msgspec.json.encode(state).decode()
        with self._using:
            try:
                if version == 0:
                    query = "INSERT OR IGNORE INTO canary (state, namespace, name, version) VALUES (?, ?, ?, 1)"
                    return self._db.execute(query, (text, key.namespace, key.name)).rowcount == 1
                query = "UPDATE canary SET state = ?, version = version + 1 WHERE namespace = ? AND name = ? AND version = ?"
                return self._db.execute(query, (text, key.namespace, key.name, version)).rowcount == 1
            except sqlite3.Error as error:
                raise StateError(f"{self._path} cannot be written: {error}") from error

    def forget_canary(self, key: DeploymentKey) -> None:
        """The analysis is gone: its state goes too. Raises `StateError`."""
        with self._using:
            try:
                self._db.execute("DELETE FROM canary WHERE namespace = ? AND name = ?", (key.namespace, key.name))
            except sqlite3.Error as error:
                raise StateError(f"{self._path} cannot be written: {error}") from error
