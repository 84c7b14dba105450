"""What users reported about sources and their answers, from the HTTP answer to the decision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from observer.collect.promql import PromqlClient, Query
from observer.collect.promql_source import Bound, Provider, SourceRules, bind
from observer.discover.admission import refusal
from router_contract.canary import Operator, Source
from router_contract.canary_inputs import QueryAnswer, QueryTrouble
from router_contract.canary_results import Decision, Reason, Verdict
from router_contract.targets import Address, Tls
from tests.collect.test_promql import Now, body, error, posted, vector
from tests.fakes.authority import Authority
from tests.fakes.hostile import Answer, reply, serving
from tests.judge.canary.build import Canary, analysis, asked, definition, promql

P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
R = Reason
T = Now().now().wall


@pytest.fixture
async def client() -> AsyncIterator[PromqlClient]:
    async with PromqlClient(Now(), lambda _: None) as made:
        yield made


def big(series: int, labels: int) -> Answer:
    one = json.dumps({"metric": {f"l{place}": "v" for place in range(labels)}, "value": [T, "0"]})
    text = '{"status":"success","data":{"resultType":"vector","result":[' + ",".join([one] * series) + "]}}"
    return reply(text.encode())


LT, GT, GTE = Operator.LT, Operator.GT, Operator.GTE
ROWS: dict[str, tuple[Answer, Operator, float, Verdict, Reason]] = {
    "1 an empty vector": (reply(vector()), LT, 1.0, U, R.NO_DATA),
    "2 0/0": (reply(vector("NaN")), GT, 0.9, U, R.NOT_A_NUMBER),
    "5 NaN with a maximum": (reply(vector("NaN")), LT, 500.0, U, R.NOT_A_NUMBER),
    "8 empty, expected 1": (reply(vector()), LT, 1.0, U, R.NO_DATA),
    "10 targets lost": (reply(vector()), LT, 10.0, U, R.NO_DATA),
    "11 no series is not 100 %": (reply(vector()), GTE, 0.99, U, R.NO_DATA),
    "14 a wrong query": (reply(vector("NaN", "NaN")), LT, 1.0, U, R.NOT_A_NUMBER),
    "16 one series": (reply(vector("2")), GTE, 0.0, P, R.WITHIN_THRESHOLD),
    "23 an empty body": (reply(b""), LT, 1.0, U, R.BAD_RESPONSE),
    "26 403 without a text": (error("403 Forbidden"), LT, 1.0, U, R.AUTH_REJECTED),
    "29 no tenant header": (error("401 Unauthorized"), LT, 1.0, U, R.AUTH_REJECTED),
    "34 200 000 series": (big(200_000, 0), LT, 1.0, U, R.TOO_LARGE),
    "34 10 000 labels": (big(1, 10_000), LT, 1.0, U, R.TOO_LARGE),
    "56 a token echoed": (
        reply(b'{"status":"error","errorType":"x","error":"t0ken"}', status="401 No"),
        LT,
        1.0,
        U,
        R.AUTH_REJECTED,
    ),
    "1.10 -Inf passes no LT": (reply(body([T, "-Inf"], "scalar")), LT, 1.0, U, R.INFINITE),
}


@pytest.mark.parametrize("row", ROWS)
async def test_row(client: PromqlClient, row: str) -> None:
    answer, operator, limit, verdict, reason = ROWS[row]
    canary = Canary(definition(analysis(promql(operator=operator, limit=limit))))
    async with serving(posted(answer)) as server:
        source = Bound(address=Address(host="127.0.0.1", port=server.port, path="/api/v1/query"), token="t0ken")
        (seen,) = await client.sample(source, [Query(text="up")], 5.0, 60.0)
    outcome = canary.sample(asked(seen))
    (result,) = outcome.verdicts
    assert (outcome.verdict, result.reason) == (verdict, reason)
    assert outcome.state.failed_checks == 0, "the budget is untouched"
    assert outcome.decision is (Decision.ADVANCE if verdict is P else Decision.HOLD)
    assert "t0ken" not in repr(outcome)
    if row.startswith("26"):
        assert "403" in result.message


async def test_row_27_the_timeout_is_the_metrics_own(client: PromqlClient) -> None:
    """Report 27: an answer after 35 s where the client allows 30; here in tenths."""
    asked_for = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        asked_for.set()
        await asyncio.sleep(0.35)
        await reply(vector("0"))(reader, writer, head)

    async with serving(posted(late)) as server:
        source = Bound(address=Address(host="127.0.0.1", port=server.port))
        short, long = await client.sample(
            source, [Query(text="up", timeout=0.1), Query(text="up", timeout=5.0)], 10.0, 60.0
        )
    assert asked_for.is_set()
    assert isinstance(short, QueryTrouble)
    assert short.reason is R.TIMEOUT
    assert isinstance(long, QueryAnswer)


async def test_row_30_a_private_authority_needs_no_disabled_verification(client: PromqlClient, tmp_path: Path) -> None:
    """Report 30: a server with a certificate of its own authority, and that authority given."""
    authority = Authority(tmp_path)
    context = authority.server(authority.issue("prom", names=("127.0.0.1",)))
    async with serving(posted(reply(vector("0"))), tls=context) as server:
        provider = Provider(server_address=f"https://127.0.0.1:{server.port}", tls=Tls(ca_file=authority.ca_file))
        bound = bind(Source(provider="p"), SourceRules(providers={"p": provider}), "ns", None)
        assert isinstance(bound, Bound)
        (outcome,) = await client.sample(bound, [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryAnswer)


def test_row_31_a_binding_serves_the_namespaces_it_allows() -> None:
    """Report 31: each namespace needs no copy of the token."""
    rules = SourceRules(providers={"p": Provider(server_address="http://p:9090", namespaces=("b",), token_file="/t")})
    allowed, other = (bind(Source(provider="p"), rules, name, None) for name in ("b", "c"))
    assert isinstance(allowed, Bound)
    assert allowed.address.bearer_token_file == "/t"
    assert isinstance(other, QueryTrouble)
    assert other.reason is R.PROVIDER_UNBOUND


async def test_row_55_a_metadata_address_is_not_asked() -> None:
    """Report 55: a metric's URL as a way into the network."""
    source = Source(server_address="http://169.254.169.254/")
    closed = bind(source, SourceRules(), "ns", None)
    assert isinstance(closed, QueryTrouble)
    assert closed.reason is R.SOURCE_FORBIDDEN
    opened = bind(source, SourceRules(allow_server_address=True), "ns", None)
    assert isinstance(opened, Bound)
    async with PromqlClient(Now(), refusal) as client:
        (outcome,) = await client.sample(opened, [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryTrouble)
    assert outcome.reason is R.SOURCE_FORBIDDEN


async def test_a_source_that_goes_away_holds_and_then_stalls_without_a_failed_check(client: PromqlClient) -> None:
    canary = Canary(definition(analysis(promql())))
    async with serving(posted(reply(vector("0.9")))) as server:
        source = Bound(address=Address(host="127.0.0.1", port=server.port))
        (bad,) = await client.sample(source, [Query(text="up")], 5.0, 60.0)
    (gone,) = await client.sample(source, [Query(text="up")], 5.0, 60.0)
    assert canary.sample(asked(bad)).state.failed_checks == 1
    for _ in range(14):
        outcome = canary.sample(asked(gone))
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, R.SOURCE_UNREACHABLE)
    outcome = canary.sample(asked(gone))
    assert (outcome.decision, outcome.reason, outcome.state.failed_checks) == (Decision.FAILED, R.ANALYSIS_STALLED, 1)


@pytest.mark.parametrize("how", ["a name that does not resolve", "a certificate nobody trusts"])
async def test_a_source_that_cannot_be_reached(client: PromqlClient, tmp_path: Path, how: str) -> None:
    canary = Canary(definition(analysis(promql())))
    authority = Authority(tmp_path)
    context = authority.server(authority.issue("prom", names=("127.0.0.1",)))
    async with serving(posted(reply(vector("0"))), tls=context) as server:
        address = Address(scheme="https", host="127.0.0.1", port=server.port, path="/api/v1/query")
        if how.startswith("a name"):
            address = Address(host="prometheus.invalid", port=9090, path="/api/v1/query")
        (seen,) = await client.sample(Bound(address=address), [Query(text="up")], 5.0, 60.0)
    assert isinstance(seen, QueryTrouble)
    assert (seen.reason, seen.permanent) == (R.SOURCE_UNREACHABLE, False)
    outcome = canary.sample(asked(seen))
    assert (outcome.verdict, outcome.decision, outcome.state.failed_checks) == (U, Decision.HOLD, 0)
