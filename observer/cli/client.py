"""Asking a running observer: one request, its JSON, and a sentence for everything that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib.metadata import version
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
        if not self.server.startswith(("http://", "https://")):
            raise CommandFailed(f"--server is {self.server!r}; want an address like {DEFAULT_SERVER}", Exit.USAGE)
        timeout = aiohttp.ClientTimeout(total=self.seconds)
        headers = {"Accept": "application/json", **self._authorization()}
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self.server.rstrip("/") + path, params=query, headers=headers) as answer,
            ):
                body = await _whole(answer)
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
        return self._read(path, answer.status, answer.content_type, body)

    def _authorization(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self.token_file.read_text(encoding='utf-8').strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CommandFailed(f"the token file {self.token_file} cannot be read: {why}", Exit.USAGE) from error

    def _unreachable(self, error: aiohttp.ClientError) -> str:
        why = error.strerror if isinstance(error, aiohttp.ClientConnectorError) and error.strerror else str(error)
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return (
                f"the certificate of {self.server} is not trusted here: {error.certificate_error}. "
                "Set SSL_CERT_FILE to a file with its authority, or correct --server"
            )
        if isinstance(error, aiohttp.ClientSSLError):
            return f"TLS with {self.server} fails: {why}. If it speaks plain HTTP, give --server http://…"
        if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and not isinstance(
            error, aiohttp.ClientConnectorError
        ):
            return f"{self.server} closed the connection without an answer: {why}. If it speaks TLS, give --server https://…"
        if isinstance(error, aiohttp.ClientResponseError):
            return f"what answers at {self.server} is no observer: it does not speak HTTP ({error.message}). Check --server"
        return (
            f"no observer answers at {self.server}: {why}. "
            "Start one with `observer demo` or `observer serve --config FILE`, or name another with --server or OBSERVER_SERVER"
        )

    def _read(self, path: str, status: int, content_type: str, body: bytes) -> Any:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise CommandFailed(self._no_json(status, content_type), Exit.UNREACHABLE, status=status) from error
        if status == 200 and not isinstance(answer, dict):
            raise CommandFailed(
                f"what answers at {self.server} is no observer, or one of another version: its answer is no JSON object",
                status=status,
            )
        if status == 200:
            return answer
        message = answer.get("message") if isinstance(answer, dict) else None
        if status == 404 and isinstance(message, str) and message.startswith("nothing is at "):
            raise CommandFailed(
                f"the observer at {self.server} does not know {path}: it is of another version than this command, "
                f"{version('modeldeployment-observer')}. Update the older of the two",
                status=status,
            )
        raise CommandFailed(
            f"{message or f'{self.server} answered HTTP {status}'}{self._advice(status)}", status=status
        )

    def _advice(self, status: int) -> str:
        """What to do about a status of an observer, as the end of a sentence."""
        if status in {401, 403} and self.token_file is None:
            return ". Give its token: --token-file FILE or OBSERVER_TOKEN_FILE"
        if status in {401, 403}:
            return f". It does not accept the token in {self.token_file}"
        return ". Look at the observer's log" if status == 500 else ""

    def _no_json(self, status: int, content_type: str) -> str:
        """Something else than an observer answers: what it may be, and what to do."""
        if status in {401, 403, 407}:
            return f"what stands before {self.server} wants credentials (HTTP {status}): ask the observer's own address"
        if status in {502, 503, 504}:
            return f"what stands before {self.server} cannot reach the observer (HTTP {status}): is it running?"
        what = "with a web page" if "html" in content_type else "without JSON"
        return f"what answers at {self.server} is no observer: HTTP {status} {what}. Check --server"


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises `CommandFailed` when it passes `MAX_ANSWER_BYTES`."""
    parts = bytearray()
    async for part in answer.content.iter_any():
        parts += part
        if len(parts) > MAX_ANSWER_BYTES:
            raise CommandFailed(f"an answer passes {MAX_ANSWER_BYTES >> 20} MiB: ask for less, with -n or a name")
    return bytes(parts)
