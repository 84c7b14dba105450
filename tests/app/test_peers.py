"""Two replicas on loopback: one asks the other over its own HTTPS port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from observer.app.peers import HttpsPeers
from router_contract.targets import DeploymentKey
from tests.exporters.aggregated.serving import BASE, HOST, World, asking, named, serving

LIST = f"{BASE}/modeldeploymentmetrics"
CODE = DeploymentKey("prod", "code")
TOKEN = {"Authorization": "Bearer good"}


class Table:
    """What this replica knows of the others."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def owner(self, key: DeploymentKey) -> str | None:
        return "b" if key == CODE else None

    def urls(self) -> Mapping[str, str]:
        return self.places


async def told() -> Mapping[str, str]:
    return TOKEN


@asynccontextmanager
async def two(folder: Path, *, seconds: float = 5.0) -> AsyncIterator[tuple[World, World, Table, HttpsPeers]]:
    """The replica that is asked, the one that owns ``code``, and how the first finds it."""
    (folder / "b").mkdir()
    (folder / "a").mkdir()
    table = Table()
    async with serving(folder / "b", named("code", awaiting="theirs", judged=False)) as other:
        peers = HttpsPeers(table, shown=lambda: other.tls.pair, name=HOST, headers=told, seconds=seconds)
        async with peers, serving(folder / "a", named("chat"), named("code"), peers=peers) as asked:
            table.places["b"] = other.url
            yield asked, other, table, peers


async def test_the_owner_answers_for_what_it_owns(tmp_path: Path) -> None:
    async with two(tmp_path) as (asked, other, _, peers), asking(asked) as client:
        _, _, body = await client.get(f"{BASE}/namespaces/prod/modeldeployments/code")
        assert body["awaiting"] == "theirs"
        _, _, found = await client.get(LIST)
        assert [each["metadata"]["name"] for each in found["items"]] == ["chat", "code"]
        assert peers.others() == ("b",)
        assert {identity.user for identity, _ in other.rights.asked} == {"system:serviceaccount:mon:prometheus"}
        status, _, _ = await client.get(f"{BASE}/namespaces/prod/modeldeployments/code/scale")
        assert status == 404


TROUBLES = {
    "away": lambda _, table: table.places.update(b="https://127.0.0.1:1"),
    "unknown": lambda _, table: table.places.clear(),
    "another certificate": lambda other, _: other.tls.show(other.pair("elsewhere")),
    "no right": lambda other, _: other.rights.allowed.clear(),
    "nobody's token": lambda other, _: other.rights.tokens.clear(),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_without_its_owner_a_deployment_is_told_in_part(tmp_path: Path, trouble) -> None:
    async with two(tmp_path) as (asked, other, table, peers), asking(asked) as client:
        if trouble is TROUBLES["another certificate"]:
            pair = other.tls.pair
            peers._shown = lambda: pair
        trouble(other, table)
        path = f"{BASE}/namespaces/prod/modeldeploymentmetrics/code"
        status, _, body = await client.get(path)
        assert (status, body["partial"]) == (200, True)
        _, _, found = await client.get(LIST)
        assert [each["partial"] for each in found["items"] if each["metadata"]["name"] == "code"] == [True]


async def test_a_refusal_of_the_owner_is_ours(tmp_path: Path) -> None:
    async with two(tmp_path) as (asked, other, _, _), asking(asked) as client:
        other.source.reports.clear()
        status, _, body = await client.get(f"{BASE}/namespaces/prod/modeldeploymentmetrics/code")
        assert (status, body["reason"]) == (404, "NotFound")


async def test_one_that_hangs_is_waited_for_no_longer_than_it_may(tmp_path: Path) -> None:
    async with two(tmp_path, seconds=0.2) as (asked, other, _, _), asking(asked) as client:

        async def hang(*_: object) -> None:
            import asyncio

            await asyncio.Event().wait()

        other.rights.token = hang
        status, _, body = await client.get(f"{BASE}/namespaces/prod/modeldeploymentmetrics/code")
        assert (status, body["partial"]) == (200, True)
