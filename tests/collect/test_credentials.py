"""Files of credentials: looked at before each use, never waited for."""

from __future__ import annotations

import os
from pathlib import Path

from observer.clock import SystemClock
from observer.collect.credentials import TlsContexts, TokenFiles
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from router_contract.readings import FailureKind
from router_contract.targets import Address, Tls
from tests.collect.conftest import LIMITS
from tests.fakes.hostile import reply, serving


async def test_a_token_that_appears_changes_and_vanishes_is_what_each_request_bears(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with serving(reply(b"a 1\n")) as server, Fetcher(SystemClock(), LIMITS) as fetcher:
        address = Address(host="127.0.0.1", port=server.port, bearer_token_file=str(file))

        async def borne() -> bytes | FailureKind:
            outcome = await fetcher.fetch(address, 2.0)
            if not isinstance(outcome, Fetched):
                return outcome.kind
            found = [line for line in server.heads[-1].split(b"\r\n") if line.startswith(b"Authorization: ")]
            return found[0].removeprefix(b"Authorization: Bearer ")

        assert await borne() is FailureKind.HTTP
        file.write_text("one\n")
        assert [await borne(), await borne()] == [b"one", b"one"]
        new = tmp_path / "new"
        new.write_text("two\n")
        new.rename(file)
        assert await borne() == b"two"
        file.write_text("two\r\nX-Injected: yes\n")
        assert await borne() is FailureKind.HTTP
        file.unlink()
        assert await borne() is FailureKind.HTTP
        file.write_text("three")
        assert await borne() == b"three"
        assert (server.connections, len(server.heads)) == (1, 4), "nothing was sent without it"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for found in (TokenFiles().get(str(pipe)), TlsContexts().get(Tls(ca_file=str(pipe)))):
        assert isinstance(found, Failure)
        assert "it is no regular file" in found.detail
