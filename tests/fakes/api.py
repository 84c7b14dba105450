"""A program's API on loopback that replays recorded answers: routes that a test may change while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from tests.fakes.hostile import Answer, Server, reply, serving


class Recorded(NamedTuple):
    """One recorded answer."""

    status: int
    content_type: str
    body: bytes

    @property
    def answer(self) -> Answer:
        kind = f"Content-Type: {self.content_type}\r\n" if self.content_type else ""
        return reply(self.body, status=f"{self.status} As Recorded", headers=kind)


def recorded(path: Path) -> dict[str, Recorded]:
    """The answers of an ``endpoints-*.txt`` by path: blocks ``### GET /path | status line | content type``, then a body."""
    found: dict[str, Recorded] = {}
    for block in path.read_bytes().split(b"### GET ")[1:]:
        head, _, body = block.partition(b"\n")
        route, status, *rest = [each.strip() for each in head.decode().split("|")]
        if not any(each.startswith("content-type:") for each in rest):
            # one of the formats has "200 application/json" in one column
            status, _, kind = status.partition(" ") if status[0].isdigit() else (status, "", "")
        else:
            kind = rest[0].removeprefix("content-type:").strip()
        code = next(int(each) for each in status.split() if each.isdigit())
        found[route] = Recorded(code, kind, body.strip())
    return found


class Api:
    """What is served: an answer by path, 404 for any other, and the paths that were asked, in order."""

    def __init__(self, routes: dict[str, Answer] | None = None) -> None:
        self.routes: dict[str, Answer] = dict(routes or {})
        self.server = Server(0)

    @classmethod
    def replaying(cls, path: Path) -> Api:
        return cls({route: each.answer for route, each in recorded(path).items()})

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def asked(self) -> list[str]:
        return [head.split(b" ", 2)[1].decode() for head in self.server.heads]

    def header(self, name: str) -> list[str]:
        """A header's values in the requests seen so far."""
        wanted = name.lower().encode() + b": "
        lines = [line for head in self.server.heads for line in head.split(b"\r\n")]
        return [line[len(wanted) :].decode() for line in lines if line.lower().startswith(wanted)]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        path = head.split(b" ", 2)[1].decode()
        await self.routes.get(path, reply(status="404 Not Found"))(reader, writer, head)

    @contextlib.asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Api]:
        """Serve; with a ``port`` in the place of a server that ended."""
        async with serving(self._answer, port=port) as self.server:
            yield self


def in_turn(*answers: Answer) -> Answer:
    """Each answer once, the last one for ever."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(reader, writer, head)

    return answer
