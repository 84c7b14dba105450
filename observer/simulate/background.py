"""The tasks of one simulation, all children of one `asyncio.TaskGroup`, cancelled and awaited together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Background:
    """Runs coroutines until `stop`. A task that raises brings the whole simulation down, which is what we want."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the group. `stop` must follow."""
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine beside the others. The caller may cancel the task it gets."""
        if self._group is None:
            work.close()
            raise RuntimeError(f"background task {name!r} before start: the simulation is not running")
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Cancel every task and wait for all of them."""
        if self._group is None:
            return
        for task in tuple(self._tasks):
            task.cancel()
        group, self._group = self._group, None
        await group.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
