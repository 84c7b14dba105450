"""KV documents, look-ups and families over HTTP, from a source of real summaries."""

from __future__ import annotations

import msgspec
import pytest
from aiohttp import web

from exporters.family import FamilyType
from exporters.kv import KvApi, parse_hashes
from exporters.kv_families import kv_families
from router_contract.kv_streams import KvLookup, ReceiverSummary
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey
from tests.fakes.kv_world import DEPLOYMENT, World

OTHER = DeploymentKey("default", "without-publishers")


class Source:
    """One world's stream as a `KvSource`."""

    def __init__(self) -> None:
        self.world = World()
        for number in range(1, 6):
            self.world.publisher.store([number], number - 1 or None)
        self.world.connect()
        self.world.answer()

    def now(self) -> Instant:
        return self.world.now

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        return (DEPLOYMENT, OTHER)

    def kv_streams(self, deployment=None):
        summary = self.world.blocks.summary(self.world.stream, self.world.now)
        return (summary,) if deployment in (None, DEPLOYMENT) else ()

    def kv_index(self, deployment):
        return self.world.ledger.index_summary(deployment, [(self.world.blocks, self.world.stream)])

    def kv_size(self, deployment):
        return self.world.ledger.index_size(deployment)

    def kv_lookup(self, deployment, hashes, model) -> KvLookup:
        pair = [(self.world.blocks, self.world.stream)]
        return self.world.ledger.lookup(deployment, hashes, pair, self.world.now, model=model)

    def kv_receiver(self) -> ReceiverSummary:
        return ReceiverSummary(streams=1, capacity_bytes=64, pauses=2)


@pytest.fixture
async def client(aiohttp_client):
    app = web.Application()
    app.add_routes(KvApi(Source()).routes())
    return await aiohttp_client(app)


BASE = "/api/v1/namespaces/default/modeldeployments/demo/kv"


async def test_the_document_shows_streams_residency_and_index(client):
    answer = await client.get(BASE)
    assert answer.status == 200
    document = await answer.json()
    (stream,) = document["streams"]
    assert (stream["pod"], stream["rank"], stream["state"], stream["history"]) == ("pod-0", 0, "Live", "complete")
    assert stream["lastSequence"] == 4
    assert stream["counters"]["events"]["stored"] == 5
    assert [(medium["medium"], medium["tier"], medium["blocks"]) for medium in stream["media"]] == [
        ("GPU", "device", 5)
    ]
    assert stream["lastEvent"]["ageSeconds"] == 0
    assert "statedRank" not in stream
    (residency,) = document["residency"]
    assert (residency["unique"], residency["total"], residency["redundancy"]) == (5, 5, 1.0)
    assert residency["space"]["hashType"] == "uint64"
    assert document["index"]["cleaning"] == 0


async def test_a_deployment_without_publishers_has_an_empty_document(client):
    document = await (await client.get(BASE.replace("demo", OTHER.name))).json()
    assert document["streams"] == []


@pytest.mark.parametrize("path", ["", "/lookup?hashes=1"])
async def test_an_unknown_deployment_is_not_found(client, path):
    answer = await client.get(BASE.replace("demo", "nobody") + path)
    assert answer.status == 404
    assert "nobody" in (await answer.json())["message"]


async def test_a_look_up_says_who_holds_how_long_a_prefix_on_which_medium_and_how_old(client):
    document = await (await client.get(f"{BASE}/lookup?hashes=1,2,3,99")).json()
    (holding,) = document["holdings"]
    assert (holding["pod"], holding["blocks"], holding["tokens"]) == ("pod-0", 3, 12)
    assert holding["media"] == {"GPU": 3}
    assert holding["ageSeconds"] == 0
    assert document["asked"] == 4
    posted = await client.post(f"{BASE}/lookup", json={"hashes": ["1", 2], "model": "tiny"})
    assert (await posted.json())["holdings"][0]["blocks"] == 2
    other = await client.post(f"{BASE}/lookup", json={"hashes": [1], "model": "another"})
    assert (await other.json())["holdings"] == []


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "0 given"),
        ("?hashes=x", "decimal"),
        ("?hashes=1,hex:00", "one kind"),
    ],
)
async def test_a_bad_look_up_is_refused_and_says_why(client, query, why):
    answer = await client.get(f"{BASE}/lookup{query}")
    assert answer.status == 400
    assert why in await answer.text()


async def test_too_many_hashes_are_refused(client):
    answer = await client.post(f"{BASE}/lookup", json={"hashes": [1] * 10_001})
    assert answer.status == 400
    assert "10001 given; want 1 to 10000" in await answer.text()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"hashes": 1}', b'{"hashes": [1], "extra": 2}', b'{"hashes": [1.5]}'])
async def test_a_bad_body_is_refused(client, body):
    assert (await client.post(f"{BASE}/lookup", data=body)).status == 400


def test_hashes_are_of_one_kind_and_bounded():
    assert parse_hashes(["1", 2]) == [1, 2]
    with pytest.raises(ValueError, match=r"want 1 to 10000, as \?hashes=1,2,3"):
        parse_hashes([1] * 10_001)


def test_families_have_rows_that_fit_their_labels_and_distinct_names():
    families = kv_families(Source())
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert (family.type is FamilyType.COUNTER) == family.name.endswith("_total")
        for labels, number in family.rows(None):
            assert len(labels) == len(family.labels), family.name
            assert isinstance(number, int | float)
    values = {family.name: list(family.rows(None)) for family in families}
    blocks = values["modeldeployment_kv_index_blocks"]
    assert blocks == [(("default", "demo", "server", "pod-0", "1", "0", "GPU"), 5)]
    states = values["modeldeployment_kv_event_stream_state"]
    assert [labels[-1] for labels, number in states if number] == ["Live"]
    assert values["observer_event_pauses_total"] == [((), 2)]
    assert [number for _, number in values["modeldeployment_kv_event_lag_seconds"]] == [0.0]
    assert {labels[-1] for labels, _ in values["modeldeployment_kv_event_replays_total"]} == {"ended"}


def test_a_stream_without_events_has_no_last_event_series():
    source = Source()
    source.world = World()
    values = {family.name: list(family.rows(None)) for family in kv_families(source)}
    assert values["modeldeployment_kv_event_last_timestamp_seconds"] == []
    assert values["modeldeployment_kv_event_last_sequence"] == []


def test_the_document_is_plain_json():
    import orjson

    from exporters.kv import kv_document

    source = Source()
    assert orjson.loads(orjson.dumps(kv_document(source, DEPLOYMENT)))["metadata"] == {
        "namespace": "default",
        "name": "demo",
    }
    assert msgspec.json.encode(kv_document(source, OTHER))


def parted() -> Source:
    """The stream lost its connection, for longer than a moment."""
    source = Source()
    source.world.disconnect()
    source.world.mono += 30
    source.world.stream.tick(source.world.now)
    return source


def test_blocks_of_a_stream_without_a_connection_are_stale_in_document_and_families():
    from exporters.kv import kv_document

    source = parted()
    document = kv_document(source, DEPLOYMENT)
    assert document["streams"][0]["stale"]["ageSeconds"] == 30
    (residency,) = document["residency"]
    assert not {"unique", "total", "shared", "redundancy"} & set(residency), "nobody who is connected tells"
    (stale,) = residency["stale"]
    assert (stale["pod"], stale["rank"], stale["blocks"], stale["since"]["ageSeconds"]) == ("pod-0", 0, 5, 30)
    values = {family.name: list(family.rows(None)) for family in kv_families(source)}
    labels = ("default", "demo", "server", "pod-0", "1", "0")
    assert values["modeldeployment_kv_index_blocks"] == []
    assert values["modeldeployment_kv_index_stale_blocks"] == [((*labels, "GPU"), 5)]
    lost = source.world.now.wall - 30
    assert values["modeldeployment_kv_event_stale_since_timestamp_seconds"] == [(labels, lost)]
    connected = {family.name: list(family.rows(None)) for family in kv_families(Source())}
    assert connected["modeldeployment_kv_index_stale_blocks"] == []
    assert connected["modeldeployment_kv_event_stale_since_timestamp_seconds"] == []


def test_of_a_life_of_which_nothing_was_read_no_number_of_blocks_is_told():
    from exporters.kv import kv_document

    source = Source()
    source.world.disconnect()
    source.world.tell_restarted()
    (stream,) = kv_document(source, DEPLOYMENT)["streams"]
    assert not {"blocks", "unanchored"} & set(stream)
    assert [(each["medium"], "blocks" in each, each["storedEvents"]) for each in stream["media"]] == [("GPU", False, 5)]
    values = {family.name: list(family.rows(None)) for family in kv_families(source)}
    for name in ("blocks", "stale_blocks", "unanchored_blocks"):
        assert values[f"modeldeployment_kv_index_{name}"] == []
    source.world.mono += 30
    source.world.stream.tick(source.world.now)
    assert {family.name: list(family.rows(None)) for family in kv_families(source)}[
        "modeldeployment_kv_index_stale_blocks"
    ] == []


def test_a_fresh_publisher_that_said_that_it_sent_nothing_holds_nothing():
    from exporters.kv import kv_document

    source = Source()
    source.world = World()
    (stream,) = kv_document(source, DEPLOYMENT)["streams"]
    assert "blocks" not in stream
    source.world.connect()
    source.world.answer()
    (stream,) = kv_document(source, DEPLOYMENT)["streams"]
    assert (stream["blocks"], stream["unanchored"]) == (0, 0)
