"""Asking a running observer: one request, its JSON, and a sentence for everything that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec
import orjson

from observer.cli.exits import CommandFailed, Exit

DEFAULT_SERVER = "http://127.0.0.1:9480"
MAX_ANSWER_BYTES = 64 * 1024 * 1024
SLOW_SECONDS = 1.0
"""After this long without an answer the user is told what is being waited for."""


class Asks(Protocol):
    """Something that answers like an observer."""

    def get(self, path: str, query: Mapping[str, str] | None = None, *, waiting: Callable[[str], None]) -> Any:
        """The JSON at a path, as `Client.get`."""
        ...


class Finder(Protocol):
    """Where verbs ask when nobody named a server: the context object of a command line that has one."""

    def client(self, token_file: Path | None, seconds: float) -> Asks:
        """Who is asked; ``seconds`` bound one request."""
        ...

    def namespace(self) -> str:
        """The namespace when nobody named one."""
        ...


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Where the observer is and how to ask it. ``seconds`` bounds one request."""

    server: str = DEFAULT_SERVER
    token_file: Path | None = None
    seconds: float = 15.0

    def get(self, path: str, query: Mapping[str, str] | None = None, *, waiting: Callable[[str], None]) -> Any:
        """The JSON at a path. ``waiting`` is called once with a sentence when the answer is not there in a second.

        Raises `CommandFailed`: `Exit.UNREACHABLE` when nobody (or no observer) answers, else `Exit.FAILED` with the
        observer's own message.
        """
        return asyncio.run(self._get(path, dict(query or {}), waiting))

    async def _get(self, path: str, query: dict[str, str], waiting: Callable[[str], None]) -> Any:
        loop = asyncio.get_running_loop()
        slow = loop.call_later(SLOW_SECONDS, waiting, f"waiting for {self.server} …")
        try:
            return await self._ask(path, query)
        finally:
            slow.cancel()

    async def _ask(self, path: str, query: dict[str, str]) -> Any:
        timeout = aiohttp.ClientTimeout(total=self.seconds)
        headers = {"Accept": "application/json", **self._authorization()}
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self.server.rstrip("/") + path, params=query, headers=headers) as answer,
            ):
                body = await answer.content.read(MAX_ANSWER_BYTES)
        except aiohttp.InvalidURL as error:
            raise CommandFailed(
                f"--server is {self.server!r}; want an address like {DEFAULT_SERVER}", Exit.USAGE
            ) from error
        except TimeoutError as error:
            raise CommandFailed(
                f"{self.server} did not answer within {self.seconds:g} s. Try --timeout, or look at its logs",
                Exit.UNREACHABLE,
            ) from error
        except aiohttp.ClientError as error:
            raise CommandFailed(self._unreachable(error), Exit.UNREACHABLE) from error
        return self._read(answer.status, body)

    def _authorization(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self.token_file.read_text(encoding='utf-8').strip()}"}
        except OSError as error:
            raise CommandFailed(
                f"the token file {self.token_file} cannot be read: {error.strerror}", Exit.USAGE
            ) from error

    def _unreachable(self, error: aiohttp.ClientError) -> str:
        why = error.strerror if isinstance(error, aiohttp.ClientConnectorError) and error.strerror else str(error)
        return (
            f"no observer answers at {self.server}: {why}. "
            "Start one with `observer demo` or `observer serve --config FILE`, or name another with --server or OBSERVER_SERVER"
        )

    def _read(self, status: int, body: bytes) -> Any:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise CommandFailed(
                f"what answers at {self.server} is no observer: HTTP {status} without JSON. Check --server",
                Exit.UNREACHABLE,
            ) from error
        if status != 200:
            message = answer.get("message") if isinstance(answer, dict) else None
            raise CommandFailed(message or f"{self.server} answered HTTP {status}")
        return answer
