"""Where the state of canary analyses is kept: a protocol of compare-and-set, and the state file as one."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from observer.persist import StateError, StateFile
from router_contract.canary_results import CanaryState, CanaryStatus
from router_contract.targets import DeploymentKey

ABSENT: Final = "0"
"""The version of a state that was never stored."""


class KeepError(Exception):
    """A state cannot be read or stored now; the text says where and why."""


class Keeper(Protocol):
    """Keeps one state for each analysis. Every replica of the observer has the same one in view.

    ``keep_seconds`` is how often a state is stored in which only the time of the last look has changed.
    """

    keep_seconds: float

    async def load(self, key: DeploymentKey) -> tuple[str, CanaryState | None]:
        """The version and the state; `ABSENT` and ``None`` when there is none. Raises `KeepError`."""
        ...

    async def swap(self, key: DeploymentKey, version: str, state: CanaryState, status: CanaryStatus) -> str | None:
        """Store a state, and what is published of it, over exactly this version: the new version.

        ``None``: somebody else stored one in between, and nothing was changed. Raises `KeepError`.
        """
        ...

    async def forget(self, key: DeploymentKey) -> None:
        """The analysis is gone: its state goes too. Raises `KeepError`."""
        ...


class FileKeeper:
    """The SQLite file outside a cluster. What is published needs no place there."""

    keep_seconds = 20.0

    def __init__(self, file: StateFile) -> None:
        self._file = file

    async def load(self, key: DeploymentKey) -> tuple[str, CanaryState | None]:
        """As `Keeper.load`."""
        try:
            version, state = await asyncio.to_thread(self._file.canary, key)
        except StateError as error:
            raise KeepError(str(error)) from error
        return str(version), state

    async def swap(self, key: DeploymentKey, version: str, state: CanaryState, _status: CanaryStatus) -> str | None:
        """As `Keeper.swap`."""
        try:
            swapped = await asyncio.to_thread(self._file.swap_canary, key, int(version), state)
        except StateError as error:
            raise KeepError(str(error)) from error
        return str(int(version) + 1) if swapped else None

    async def forget(self, key: DeploymentKey) -> None:
        """As `Keeper.forget`."""
        try:
            await asyncio.to_thread(self._file.forget_canary, key)
        except StateError as error:
            raise KeepError(str(error)) from error
