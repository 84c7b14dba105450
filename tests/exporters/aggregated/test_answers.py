"""Every kind of answer over real TLS: discovery, OpenAPI, Tables, lists, pages, compression, peers, draining."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from exporters.aggregated import discovery, openapi, server
from exporters.aggregated.field_notes import KINDS
from exporters.aggregated.forwarding import FORWARDED, PeerAnswer
from exporters.aggregated.resources import RESOURCES
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport
from tests.exporters.aggregated.serving import BASE, USER, asking, named, serving

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BOTH = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
LIST = f"{BASE}/modeldeploymentmetrics"
MDM = f"{BASE}/namespaces/prod/modeldeploymentmetrics/chat"
OBSERVED = f"{BASE}/namespaces/prod/modeldeployments/chat"


async def test_a_304_is_for_kept_documents_and_never_for_the_fallback(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        for path, accept in (("/apis", BOTH), ("/openapi/v2", "application/json"), ("/openapi/v3", "application/json")):
            status, headers, _ = await client.get(path, accept)
            assert status == 200
            tag = headers["ETag"]
            status, headers, body = await client.get(path, accept, If_None_Match=tag)
            assert (status, body, headers["ETag"]) == (304, "", tag)
            assert (await client.get(path, accept, If_None_Match='"other"'))[0] == 200
        for path in (BASE, "/apis/metrics.modeldeployment.io"):
            status, headers, _ = await client.get(path, "application/json", If_None_Match=tag)
            assert status == 200
            assert "ETag" not in headers


async def test_aggregated_discovery_has_its_exact_content_type_and_the_old_form_is_there_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        _, headers, text = await client.get("/apis", BOTH)
        assert headers["Content-Type"] == AGGREGATED
        assert "Accept" in headers["Vary"]
        found = text if isinstance(text, dict) else json.loads(text)
        assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        beta = AGGREGATED.replace("v2", "v2beta1")
        for accept in (None, "application/json", f"{beta},application/json"):
            _, headers, body = await client.get("/apis", accept)
            assert (headers["Content-Type"], body["kind"]) == ("application/json", "APIGroupList")
        assert (await client.get("/apis", beta))[0] == 406


def test_no_empty_resource_list_and_one_listed_resource_of_a_kind() -> None:
    entries = discovery.api_resource_list()["resources"]
    assert entries
    listed = [entry["kind"] for entry in entries if "list" in entry["verbs"]]
    assert listed == sorted(set(listed))
    whole = [entry["kind"] for entry in entries if "/" not in entry["name"]]
    assert len(whole) == len(set(whole)), "two resources of one kind: clients take the first"
    assert all(set(entry["verbs"]) <= {"get", "list"} for entry in entries)
    assert [entry["shortNames"] for entry in entries if "shortNames" in entry] == [["mdm"]]


def test_both_forms_of_discovery_agree_and_no_kind_is_null() -> None:
    old = {
        (entry["name"], entry["kind"], tuple(entry["verbs"])) for entry in discovery.api_resource_list()["resources"]
    }
    new = set()
    for item in discovery.group_discovery_list()["items"][0]["versions"][0]["resources"]:
        new.add((item["resource"], item["responseKind"]["kind"], tuple(item["verbs"])))
        for part in item.get("subresources", ()):
            new.add((f"{item['resource']}/{part['subresource']}", part["responseKind"]["kind"], tuple(part["verbs"])))
    assert old == new


def test_openapi_describes_every_field_and_refers_only_to_what_is_there() -> None:
    for made, root in ((openapi.openapi_v3(), "#/components/schemas/"), (openapi.openapi_v2(), "#/definitions/")):
        document = json.loads(made.body)
        schemas = document["components"]["schemas"] if "components" in document else document["definitions"]
        text = json.dumps(document)
        for part in text.split('"$ref": "')[1:]:
            assert part.partition('"')[0].removeprefix(root) in schemas
        for name, schema in schemas.items():
            assert schema["description"], name
            for field, value in schema["properties"].items():
                assert value["description"], f"{name}.{field}"
        kinds = {
            each["kind"] for schema in schemas.values() for each in schema.get("x-kubernetes-group-version-kind", ())
        }
        assert kinds == openapi.kinds() == set(KINDS)
        ids = [path["get"]["operationId"] for path in document["paths"].values()]
        assert len(ids) == len(set(ids))
    assert len(document["paths"]) == 1 + sum(1 + bool(each.list_kind) + len(each.subresources) for each in RESOURCES)


@pytest.mark.parametrize("include", [None, "None", "Metadata", "Object"])
async def test_table_include_object_none_metadata_object(tmp_path: Path, include: str | None) -> None:
    async with serving(tmp_path, named("chat"), named("code")) as world, asking(world) as client:
        query = "" if include is None else f"?includeObject={include}"
        _, headers, table = await client.get(LIST + query, TABLE)
    assert headers["Content-Type"] == "application/json"
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [row["cells"][0] for row in table["rows"]] == ["chat", "code"]
    kinds = {None: "PartialObjectMetadata", "Metadata": "PartialObjectMetadata", "Object": "ModelDeploymentMetrics"}
    for row in table["rows"]:
        if include == "None":
            assert row["object"] is None
        else:
            assert row["object"]["kind"] == kinds[include]
            assert row["object"]["metadata"]["labels"]["team"]
    assert table["columnDefinitions"][0]["format"] == "name"
    assert {column["priority"] for column in table["columnDefinitions"]} == {0, 1}
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])


async def test_an_include_object_that_nobody_knows_is_a_400(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        status, _, body = await client.get(f"{LIST}?includeObject=All", TABLE)
    assert status == 400
    assert "must be one of None, Metadata, Object" in body["message"]


async def test_an_unknown_as_is_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        _, _, body = await client.get(MDM, "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json")
    assert body["kind"] == "ModelDeploymentMetrics"


async def test_json_only_or_anything_is_json_and_protobuf_alone_is_406(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        for accept in ("application/json", "*/*", "application/vnd.kubernetes.protobuf, */*", None):
            assert (await client.get(MDM, accept))[2]["kind"] == "ModelDeploymentMetrics"
        status, _, body = await client.get(MDM, "application/vnd.kubernetes.protobuf")
    assert (status, body["reason"]) == (406, "NotAcceptable")


async def test_partial_object_metadata_of_one_and_of_a_list(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        _, _, one = await client.get(MDM, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        _, _, many = await client.get(LIST, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert set(one) == {"kind", "apiVersion", "metadata"}
    assert many["kind"] == "PartialObjectMetadataList"
    assert many["items"] == [one]


async def test_selectors_and_pages_of_a_list(tmp_path: Path) -> None:
    reports = (named("chat"), named("code"), named("chat", "lab"))
    async with serving(tmp_path, *reports) as world, asking(world) as client:

        async def names(query: str, path: str = LIST) -> list[str]:
            _, _, body = await client.get(f"{path}?{query}")
            return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in body["items"]]

        assert await names("") == ["lab/chat", "prod/chat", "prod/code"]
        assert await names("labelSelector=team%3Dblue") == ["prod/code"]
        assert await names("fieldSelector=metadata.namespace%3Dprod,metadata.name!%3Dcode") == ["prod/chat"]
        assert await names("", f"{BASE}/namespaces/lab/modeldeploymentmetrics") == ["lab/chat"]
        _, _, first = await client.get(f"{LIST}?limit=2")
        assert await names(f"limit=2&continue={first['metadata']['continue']}") == ["prod/code"]
        for query, words in (
            ("labelSelector=a%3D%3D%3Db", "parse"),
            ("fieldSelector=spec.x%3D1", "field label not supported: spec.x"),
        ):
            status, _, body = await client.get(f"{LIST}?{query}")
            assert (status, body["reason"]) == (400, "BadRequest")
            assert words in body["message"]


STATUSES = {
    "not found": (f"{BASE}/namespaces/prod/modeldeploymentmetrics/other", 404, 'modeldeploymentmetrics.metrics.modeldeployment.io "other" not found'),
    "no such resource": (f"{BASE}/namespaces/prod/widgets", 404, "could not find the requested resource"),
    "no such subresource": (f"{OBSERVED}/scale", 404, "could not find the requested resource"),
    "no list": (f"{BASE}/namespaces/prod/modeldeployments", 405, "can only be asked for by name"),
    "watch": (f"{LIST}?watch=true", 405, "cannot be watched"),
    "another group": ("/apis/apps/v1", 404, "nothing is at /apis/apps/v1"),
    "root": ("/", 404, "nothing is at /"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "code", "words"), STATUSES.values(), ids=STATUSES)
async def test_errors_are_statuses(tmp_path: Path, path: str, code: int, words: str) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        status, _, body = await client.get(path)
    assert (status, body["code"], body["kind"], body["apiVersion"], body["status"]) == (
        code,
        code,
        "Status",
        "v1",
        "Failure",
    )
    assert words in body["message"]


async def test_the_observed_deployment_and_its_parts(tmp_path: Path) -> None:
    kv = {"streams": [], "residency": []}
    async with serving(tmp_path, kv=lambda _key, _query: dict(kv)) as world, asking(world) as client:
        kinds = {}
        for part in ("", "/metrics", "/explain", "/contract", "/kv"):
            status, _, body = await client.get(OBSERVED + part)
            assert status == 200, body
            assert body["apiVersion"] == "metrics.modeldeployment.io/v1"
            assert body["metadata"]["labels"] == {"team": "red", "tier": "gold"}
            kinds[part] = body["kind"]
        assert kinds == {"": "ObservedModelDeployment", "/metrics": "ModelDeploymentMetrics", "/explain": "Explanation", "/contract": "RouterContract", "/kv": "KVResidency"}  # fmt: skip
        cells = {}
        for part in ("", "/explain", "/contract", "/kv"):
            _, _, table = await client.get(OBSERVED + part, TABLE)
            cells[part] = table["rows"][0]["cells"]
        assert cells[""][:2] == ["chat", "Degraded"]
        assert cells["/explain"] == ["chat", "Degraded", "One.", "Two.", "Three."]
        assert cells["/contract"] == ["chat", "-", "none"]
        assert cells["/kv"] == ["chat", "none"]


async def test_what_was_not_judged_has_no_status_and_says_what_is_waited_for(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, named("chat", judged=False, awaiting="a first read")) as world,
        asking(world) as client,
    ):
        _, _, body = await client.get(OBSERVED)
        _, _, table = await client.get(OBSERVED, TABLE)
    assert body["awaiting"] == "a first read"
    assert "status" not in body
    assert table["rows"][0]["cells"][1:7] == ["-"] * 6


async def test_one_that_could_not_be_read_is_503_alone_and_a_row_in_a_list(tmp_path: Path) -> None:
    from msgspec.structs import replace

    unread = replace(named("gone"), targets=())
    unread = replace(unread, deployment=replace(unread.deployment, roles=(), router=None))
    async with serving(tmp_path, named("chat"), unread) as world, asking(world) as client:
        status, headers, body = await client.get(f"{BASE}/namespaces/prod/modeldeploymentmetrics/gone")
        assert (status, body["reason"], headers["Retry-After"]) == (503, "ServiceUnavailable", "5")
        _, _, found = await client.get(LIST)
        item = found["items"][1]
        assert (item["metadata"]["name"], item["partial"]) == ("gone", True)
        assert item["missing"][0]["reason"] == body["message"]
        _, _, table = await client.get(LIST, TABLE)
        assert table["rows"][1]["cells"][:4] == ["gone", "Unavailable", "-", "-"]


async def test_large_answers_are_compressed_for_who_takes_it(tmp_path: Path) -> None:
    reports = [named(f"chat-{number:03d}") for number in range(60)]
    async with serving(tmp_path, *reports) as world, asking(world) as client:
        for path, offered, wanted in (
            (LIST, "gzip", "gzip"),
            (LIST, "identity", None),
            (LIST, "gzip;q=0", None),
            (MDM, "gzip", None),
        ):
            async with client._session.get(
                world.url + path,
                headers={**USER, "Accept-Encoding": offered},
                ssl=client._context,
                server_hostname="observer-api.observer.svc",
            ) as answer:
                assert answer.headers.get("Content-Encoding") == wanted
                await answer.read()


async def test_version_and_probes(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        async with asking(world) as client:
            _, _, found = await client.get("/version")
            assert (found["major"], found["gitVersion"]) == ("0", "v0.1.0")
        async with asking(world, world.client()) as nobody:
            for path in ("/readyz", "/livez", "/healthz"):
                assert (await nobody.ask(path))[::2] == (200, "ok")
            world.source.is_ready = (False, "nothing was read")
            assert (await nobody.ask("/readyz"))[::2] == (503, "readyz check failed: nothing was read")
            assert (await nobody.ask("/livez"))[0] == 200


async def test_unready_before_close(tmp_path: Path) -> None:
    """From the first moment of a drain it is unready, connections end after an answer, and requests are answered."""
    async with serving(tmp_path) as world, asking(world) as client:
        _, headers, _ = await client.get(MDM)
        assert headers.get("Connection") != "close"
        world.server.drain()
        for _ in range(3):
            status, headers, _ = await client.get(MDM)
            assert (status, headers["Connection"]) == (200, "close")
        status, _, text = await client.ask("/readyz")
        assert (status, text) == (503, "readyz check failed: shutting down")


class Slow:
    """Peers that never answer in time."""

    def owner(self, key: DeploymentKey) -> str | None:
        return "b"

    def others(self) -> tuple[str, ...]:
        return ()

    async def ask(self, peer: str, path: str, query: Mapping[str, str]) -> PeerAnswer | None:
        await asyncio.Event().wait()


async def test_an_answer_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ANSWER_SECONDS < 8.0
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.05)
    async with serving(tmp_path, peers=Slow()) as world, asking(world) as client:
        status, _, body = await client.get(MDM)
    assert (status, body["reason"]) == (504, "Timeout")


class Other:
    """One peer that owns ``code`` and everything in ``lab``."""

    def __init__(self, answers: dict[str, PeerAnswer]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def owner(self, key: DeploymentKey) -> str | None:
        return "b" if key.name == "code" or key.namespace == "lab" else None

    def others(self) -> tuple[str, ...]:
        return ("b",)

    async def ask(self, peer: str, path: str, query: Mapping[str, str]) -> PeerAnswer | None:
        self.asked.append(path)
        return self.answers.get(path)


async def test_what_another_replica_owns_is_asked_of_it_and_merged(tmp_path: Path) -> None:
    theirs = {
        "missing": [{"pod": "", "source": "x", "reason": "y", "code": "OfTomorrow"}],
        "kind": "ModelDeploymentMetrics",
        "metadata": {"name": "code", "namespace": "prod"},
        "partial": False,
        "timestamp": "theirs",
    }
    code = f"{BASE}/namespaces/prod/modeldeploymentmetrics/code"
    peers = Other(
        {
            code: PeerAnswer(200, json.dumps(theirs).encode()),
            LIST: PeerAnswer(200, json.dumps({"items": [theirs]}).encode()),
            f"{BASE}/namespaces/lab/modeldeploymentmetrics/none": PeerAnswer(404, b'{"message": "gone"}'),
        }
    )
    async with (
        serving(tmp_path, named("chat"), named("code"), named("chat", "lab"), peers=peers) as world,
        asking(world) as client,
    ):
        assert (await client.get(code))[2]["timestamp"] == "theirs"
        _, _, table = await client.get(code, TABLE)
        assert table["rows"][0]["cells"][0] == "code"
        assert table["rows"][0]["cells"][-1] == "1: x: y", "a code of a later version matters"
        _, _, found = await client.get(LIST)
        by_name = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in found["items"]}
        assert by_name["prod", "code"]["timestamp"] == "theirs"
        assert by_name["lab", "chat"]["partial"] is True, "its owner said nothing of it"
        assert (await client.get(f"{BASE}/namespaces/lab/modeldeploymentmetrics/none"))[0] == 404
        _, _, mine = await client.get(f"{BASE}/namespaces/lab/modeldeploymentmetrics/chat")
        assert mine["partial"] is True
        before = len(peers.asked)
        _, _, own = await client.get(LIST, **{FORWARDED: "1"})
        assert [each["metadata"]["name"] for each in own["items"]] == ["chat"], "a forwarded list has what is ours"
        assert len(peers.asked) == before


class Nearby:
    """Deployments that other replicas own; how often each was read directly."""

    def __init__(self, *reports: DeploymentReport) -> None:
        self._reports = {report.key: report for report in reports}
        self.read_of: list[DeploymentKey] = []

    def keys(self) -> tuple[DeploymentKey, ...]:
        return tuple(sorted(self._reports))

    def known(self, key: DeploymentKey) -> DeploymentReport | None:
        return self._reports.get(key)

    async def read(self, key: DeploymentKey) -> DeploymentReport | None:
        self.read_of.append(key)
        return self._reports.get(key)


async def test_what_nobody_answers_for_is_read_directly_and_is_never_not_found(tmp_path: Path) -> None:
    nearby = Nearby(named("code", judged=False, awaiting="its owner does not answer"))
    one = f"{BASE}/namespaces/prod/modeldeploymentmetrics/code"
    async with serving(tmp_path, named("chat"), elsewhere=nearby) as world, asking(world) as client:
        status, _, body = await client.get(one)
        assert (status, body["partial"], nearby.read_of) == (200, True, [DeploymentKey("prod", "code")])
        _, _, found = await client.get(LIST)
        assert [(each["metadata"]["name"], each["partial"]) for each in found["items"]][1] == ("code", True)
        assert len(nearby.read_of) == 1, "a list reads nothing"
        _, _, body = await client.get(f"{BASE}/namespaces/prod/modeldeployments/code")
        assert (body["awaiting"], "status" in body) == ("its owner does not answer", False)
        status, _, body = await client.get(one, **{FORWARDED: "1"})
        assert (status, body["reason"]) == (503, "ServiceUnavailable"), "who asks reads it itself"
        _, _, own = await client.get(LIST, **{FORWARDED: "1"})
        assert [each["metadata"]["name"] for each in own["items"]] == ["chat"]
        assert (await client.get(f"{BASE}/namespaces/prod/modeldeploymentmetrics/none"))[0] == 404


def test_the_chart_lets_viewers_read_every_resource() -> None:
    text = (Path(__file__).resolve().parents[3] / "charts/observer/templates/rbac.yaml").read_text()
    rule = text.partition("- apiGroups: [metrics.modeldeployment.io]")[2].partition("verbs:")[0]
    named = {line.strip("- \n") for line in rule.splitlines() if line.strip().startswith("- ")}
    assert named == {entry["name"] for entry in discovery.api_resource_list()["resources"]}
