"""Publishers come from the engine's own answer, then from discovery, and carry what makes their hashes comparable."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from exporters.kv import KvApi, KvSource
from observer.collect.kv_sources import CollectedKv, ask_member, stream_sources
from router_contract.targets import Address, Deployment, DeploymentKey, KvEventSource, Member, Replica, Role
from tests.fakes.kv_scenarios import DEPLOYMENT, Served, ShiftedClock, collecting, live, until

RECORDINGS = Path(__file__).parents[1] / "recordings"
DECLARED = KvEventSource(endpoint="tcp://h:1", rank=0)


def member(uid: str, *events: KvEventSource) -> Member:
    return Member(
        uid=uid, name=f"pod-{uid}", host="10.0.0.7", api=Address(host="10.0.0.7", port=8000), kv_events=events
    )


def role(engine: str, *members: Member, **options: object) -> Role:
    return Role(name="server", engine=engine, replicas=(Replica(members=members),), **options)


def deployment(*roles: Role) -> Deployment:
    return Deployment(key=DeploymentKey("ns", "d"), uid="u", model="tiny", roles=roles)


def test_each_publisher_of_each_member_is_a_stream():
    second = KvEventSource(endpoint="tcp://h:2", rank=1)
    found = stream_sources(
        [deployment(role("vllm", member("a", DECLARED, second), member("b"), engine_version="0.32.0"))]
    )
    assert [(item.key.member_uid, item.key.rank, item.member, item.role, item.model) for item in found] == [
        ("a", 0, "pod-a", "server", "tiny"),
        ("a", 1, "pod-a", "server", "tiny"),
    ]
    assert found[0].seeded is True


def test_what_the_engine_reports_outranks_what_was_declared():
    reported = KvEventSource(endpoint="tcp://h:9", rank=0)
    found = stream_sources([deployment(role("vllm", member("a", DECLARED)))], {"a": (reported,)})
    assert [item.source for item in found] == [reported]


def test_the_hash_seed_comes_from_the_roles_environment():
    old = role("vllm", member("a", DECLARED), engine_version="0.20.0", environment=(("PYTHONHASHSEED", "0"),))
    assert stream_sources([deployment(old)])[0].seeded is True
    bare = role("vllm", member("a", DECLARED), engine_version="0.20.0")
    assert stream_sources([deployment(bare)])[0].seeded is False


@pytest.mark.parametrize(
    ("engine", "recording", "path"),
    [
        ("vllm", "vllm-0.32.0/kv_event_sources-dp2.json", "/kv_event_sources"),
        ("sglang", "sglang-0.5.23/server_info.json", "/server_info"),
    ],
)
async def test_an_engine_is_asked_at_its_own_path(engine, recording, path):
    asked = []

    async def fetch(_: Member, wanted: str) -> bytes:
        asked.append(wanted)
        return (RECORDINGS / recording).read_bytes()

    found = await ask_member(role(engine, member("a")), member("a"), fetch)
    assert asked == [path]
    assert found is not None
    assert found.problems == ()
    assert all(source.endpoint.startswith("tcp://10.0.0.7:") for source in found.sources)


async def test_an_engine_that_does_not_answer_or_has_no_table_says_nothing():
    async def fetch(_: Member, __: str) -> None:
        return None

    assert await ask_member(role("vllm", member("a")), member("a"), fetch) is None
    assert await ask_member(role("other", member("a")), member("a"), fetch) is None


async def test_the_collector_answers_over_http(aiohttp_client):
    served, clock = Served(), ShiftedClock()
    try:
        served.chain(1, 6)
        async with collecting(clock=clock) as collector:
            source: KvSource = CollectedKv(collector, clock, lambda: (DEPLOYMENT,))
            app = web.Application()
            app.add_routes(KvApi(source).routes())
            client = await aiohttp_client(app)
            collector.sync([served.source()])
            await until(collector, live(6))
            path = "/api/v1/namespaces/default/modeldeployments/demo/kv"
            document = await (await client.get(path)).json()
            assert document["streams"][0]["blocks"] == 6
            found = await (await client.get(f"{path}/lookup?hashes=1,2,3,4,5,6,7")).json()
            assert [(item["pod"], item["blocks"]) for item in found["holdings"]] == [("pod-0", 6)]
    finally:
        served.close()
