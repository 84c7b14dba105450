"""The query API over real loopback HTTP: every row of what a source can answer, its outcome and the verdict it leads to."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import pytest

from observer.clock import SystemClock
from observer.collect.promql import PromqlClient, Query
from observer.collect.promql_answer import HIDDEN
from observer.collect.promql_source import BasicAuth, Bound, Provider, SourceRules, bind
from observer.discover.admission import refusal
from observer.judge.canary.series import judge_query
from router_contract.canary import EmptyMeans, Metric, NonFiniteSeries, Operator, PromqlMetric, Source, Warnings
from router_contract.canary_inputs import QueryAnswer, QueryObservation, QueryTrouble
from router_contract.canary_results import MetricResult, Reason, Verdict
from router_contract.readings import Instant
from router_contract.targets import Address, Tls
from tests.fakes import hostile
from tests.fakes.authority import Authority
from tests.fakes.hostile import Answer, Server, dripping, endless, gzip_bomb, never, raw, reply, serving

T = 1_700_000_000.0
P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


class Now:
    """The machine's monotonic clock and a wall clock that stands."""

    def now(self) -> Instant:
        return Instant(SystemClock().now().mono, T)


@pytest.fixture
async def client() -> AsyncIterator[PromqlClient]:
    async with PromqlClient(Now(), lambda _: None) as made:
        yield made


def at(server: Server, **more: object) -> Bound:
    address = Address(host="127.0.0.1", port=server.port, path="/api/v1/query")
    return Bound(address=address, **more)  # type: ignore[arg-type]  # a test's shorthand


def posted(answer: Answer, forms: list[bytes] | None = None) -> Answer:
    """Reads the form of a POST before answering."""

    async def reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-l"))
        form = await reader.readexactly(length)
        if forms is not None:
            forms.append(form)
        await answer(reader, writer, head)

    return reading


async def ask(client: PromqlClient, answer: Answer, query: Query | None = None, deadline: float = 5.0) -> object:
    async with serving(posted(answer)) as server:
        (outcome,) = await client.sample(at(server), [query or Query(text="up")], deadline, 60.0)
    return outcome


def body(result: object, kind: str = "vector", **more: object) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **more}).encode()


def vector(*values: str, when: float = T) -> bytes:
    return body([{"metric": {"pod": f"p{place}"}, "value": [when, value]} for place, value in enumerate(values)])


def judged(outcome: object, operator: Operator = Operator.LT, limit: str = "1", **measure: object) -> MetricResult:
    assert isinstance(outcome, QueryAnswer | QueryTrouble)
    how = PromqlMetric(query="up", **measure)  # type: ignore[arg-type]  # a test's shorthand
    metric = Metric(name="m", operator=operator, threshold=limit, limit=float(limit), measure=how)
    return judge_query(metric, how, QueryObservation(metric="m", outcome=outcome))


def error(status: str, kind: str = "", headers: str = "") -> Answer:
    text = json.dumps({"status": "error", "errorType": kind, "error": "secret words"}).encode() if kind else b""
    return reply(text, status=status, headers=headers)


HISTOGRAM = [{"metric": {}, "histogram": [T, {"count": "3", "sum": "1", "buckets": [[0, "0", "1", "3"]]}]}]
TWICE = b'{"status":"success","status":"success","data":{"resultType":"vector","result":[]}}'
GZIPPED = gzip.compress(vector("0.5"))

ROWS: dict[str, tuple[Answer, Verdict, Reason, bool]] = {
    # what an answer says
    "scalar": (reply(body([T, "0.5"], "scalar")), P, Reason.WITHIN_THRESHOLD, False),
    "scalar breach": (reply(body([T, "1"], "scalar")), F, Reason.THRESHOLD_BREACHED, False),
    "vector, all pass": (reply(vector("0.5", "0.9")), P, Reason.WITHIN_THRESHOLD, False),
    "vector, worst fails": (reply(vector("0.5", "1.5", "0.1")), F, Reason.THRESHOLD_BREACHED, False),
    "some series NaN": (reply(vector("NaN", "0.5")), P, Reason.WITHIN_THRESHOLD, False),
    "some series Inf": (reply(vector("+Inf", "0.5")), P, Reason.WITHIN_THRESHOLD, False),
    "all NaN": (reply(vector("NaN", "NaN")), U, Reason.NOT_A_NUMBER, False),
    "scalar NaN": (reply(body([T, "NaN"], "scalar")), U, Reason.NOT_A_NUMBER, False),
    "all Inf": (reply(vector("+Inf", "-Inf")), U, Reason.INFINITE, False),
    "a value beyond doubles": (reply(vector("1e400")), U, Reason.INFINITE, False),
    "empty vector": (reply(vector()), U, Reason.NO_DATA, False),
    "string": (reply(body([T, "0.5"], "string")), U, Reason.UNSUPPORTED_TYPE, False),
    "string NaN": (reply(body([T, "NaN"], "string")), U, Reason.UNSUPPORTED_TYPE, False),
    "matrix": (reply(body([{"metric": {}, "values": [[T, "0.5"]]}], "matrix")), U, Reason.UNSUPPORTED_TYPE, False),
    "native histogram": (reply(body(HISTOGRAM)), U, Reason.UNSUPPORTED_TYPE, False),
    "warnings": (
        reply(body([{"metric": {}, "value": [T, "0.5"]}], warnings=["a store is down"])),
        U,
        Reason.PARTIAL_RESPONSE,
        False,
    ),
    "infos only": (
        reply(body([{"metric": {}, "value": [T, "0.5"]}], infos=["not a counter"])),
        P,
        Reason.WITHIN_THRESHOLD,
        False,
    ),
    "error status beside data": (
        reply(b'{"status":"error","errorType":"timeout","data":{"resultType":"vector","result":[]}}'),
        U,
        Reason.QUERY_ERROR,
        False,
    ),
    # status codes
    "400": (error("400 Bad Request", "bad_data"), U, Reason.BAD_QUERY, True),
    "422": (error("422 Unprocessable", "execution"), U, Reason.BAD_QUERY, True),
    "401": (error("401 Unauthorized"), U, Reason.AUTH_REJECTED, True),
    "403, empty body": (error("403 Forbidden"), U, Reason.AUTH_REJECTED, True),
    "404": (error("404 Not Found"), U, Reason.WRONG_ENDPOINT, False),
    "405": (error("405 Method Not Allowed"), U, Reason.WRONG_ENDPOINT, False),
    "204": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), U, Reason.WRONG_ENDPOINT, False),
    "429": (error("429 Too Many Requests"), U, Reason.SOURCE_UNAVAILABLE, False),
    "500": (error("500 Oops", "internal"), U, Reason.SOURCE_UNAVAILABLE, False),
    "503": (error("503 Unavailable", "timeout"), U, Reason.SOURCE_UNAVAILABLE, False),
    "302": (error("302 Found", headers="Location: /login\r\n"), U, Reason.REDIRECT_REFUSED, False),
    "307 elsewhere": (
        error("307 Temporary", headers="Location: http://127.0.0.2:1/api/v1/query\r\n"),
        U,
        Reason.REDIRECT_REFUSED,
        False,
    ),
    "308 in a circle": (error("308 Permanent", headers="Location: /again\r\n"), U, Reason.REDIRECT_REFUSED, False),
    # bodies
    "HTML": (reply(b"<html>log in</html>"), U, Reason.BAD_RESPONSE, False),
    "an empty body": (reply(b""), U, Reason.BAD_RESPONSE, False),
    "invalid JSON": (reply(b'{"status":"success"'), U, Reason.BAD_RESPONSE, False),
    "JSON of another program": (reply(b'{"ok":true}'), U, Reason.BAD_RESPONSE, False),
    "a bare NaN": (reply(b'{"status":"success","data":NaN}'), U, Reason.BAD_RESPONSE, False),
    "duplicate keys": (reply(TWICE), U, Reason.BAD_RESPONSE, False),
    "bad UTF-8": (reply(b'{"status":"succ\xff"}'), U, Reason.BAD_RESPONSE, False),
    "nested without end": (reply(b'{"status":' + b"[" * 200_000), U, Reason.BAD_RESPONSE, False),
    "a number that is no text": (reply(body([{"metric": {}, "value": [T, 0.5]}])), U, Reason.BAD_RESPONSE, False),
    "a laxly written number": (reply(vector("1_0")), U, Reason.BAD_RESPONSE, False),
    "gzip unasked": (reply(GZIPPED, headers="Content-Encoding: gzip\r\n"), P, Reason.WITHIN_THRESHOLD, False),
    "gzip bomb": (reply(gzip_bomb(64 << 20), headers="Content-Encoding: gzip\r\n"), U, Reason.TOO_LARGE, False),
    "cut short": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"), U, Reason.BAD_RESPONSE, False),
    "not HTTP": (raw(b"SSH-2.0-x\r\n\r\n"), U, Reason.BAD_RESPONSE, False),
    "a body without end": (endless, U, Reason.TOO_LARGE, False),
    "1001 series": (reply(vector(*["0.5"] * 1001)), U, Reason.TOO_LARGE, False),
    "65 labels": (
        reply(body([{"metric": {f"l{n}": "v" for n in range(65)}, "value": [T, "0.5"]}])),
        U,
        Reason.TOO_LARGE,
        False,
    ),
    # times
    "an old value": (reply(vector("0.5", when=T - 301)), U, Reason.STALE_SAMPLE, False),
    "old within lookback": (reply(vector("0.5", when=T - 299)), P, Reason.WITHIN_THRESHOLD, False),
    "a value from the future": (reply(vector("0.5", when=T + 31)), U, Reason.CLOCK_SKEW, False),
    "nearly from the future": (reply(vector("0.5", when=T + 29)), P, Reason.WITHIN_THRESHOLD, False),
}


@pytest.mark.parametrize("row", ROWS)
async def test_what_a_source_answers(client: PromqlClient, row: str) -> None:
    answer, verdict, reason, permanent = ROWS[row]
    result = judged(await ask(client, answer))
    assert (result.verdict, result.reason, result.permanent) == (verdict, reason, permanent)
    assert result.passed is (verdict is P)
    assert bool(result.value) is (verdict is not U)
    assert "secret" not in result.message, "no text of the source reaches a message"


@pytest.mark.parametrize(
    ("values", "operator", "limit", "value"),
    [
        (("0.5", "0.9"), Operator.LT, "1", "0.9"),
        (("0.5", "0.9"), Operator.LTE, "1", "0.9"),
        (("5", "0.9"), Operator.GT, "0.5", "0.9"),
        (("5", "0.9", "NaN"), Operator.GTE, "0.5", "0.9"),
        (("2",), Operator.GTE, "0", "2"),
        (("-0",), Operator.LTE, "0", "0"),
    ],
)
async def test_the_worst_series_by_operator(
    client: PromqlClient, values: tuple[str, ...], operator: Operator, limit: str, value: str
) -> None:
    result = judged(await ask(client, reply(vector(*values))), operator, limit)
    assert (result.value, result.verdict) == (value, P)
    assert result.dropped_series == values.count("NaN")
    assert result.series == len(values) - values.count("NaN")


async def test_policies_of_series_and_warnings(client: PromqlClient) -> None:
    some = await ask(client, reply(vector("NaN", "0.5")))
    assert judged(some, non_finite=NonFiniteSeries.INCONCLUSIVE).reason is Reason.NON_FINITE_SERIES
    partial = await ask(client, reply(body([{"metric": {}, "value": [T, "0.5"]}], warnings=["w"])))
    assert judged(partial, warnings=Warnings.ACCEPT).verdict is P


@pytest.mark.parametrize(
    ("traffic", "verdict"), [(vector("12"), P), (vector("0"), U), (vector(), U), (vector("NaN"), U), (b"<html>", U)]
)
async def test_empty_means_zero_only_with_proof_of_traffic(
    client: PromqlClient, traffic: bytes, verdict: Verdict
) -> None:
    empty, proof = await ask(client, reply(vector())), await ask(client, reply(traffic))
    how = PromqlMetric(query="up", traffic_query="reqs", empty_means=EmptyMeans.ZERO)
    metric = Metric(name="m", operator=Operator.LT, threshold="1", limit=1.0, measure=how)
    assert isinstance(empty, QueryAnswer)
    assert isinstance(proof, QueryAnswer | QueryTrouble)
    result = judge_query(metric, how, QueryObservation(metric="m", outcome=empty, traffic=proof))
    assert result.verdict is verdict
    assert result.value == ("0" if verdict is P else "")
    assert verdict is P or result.message == "no data", "OME's words"


async def test_no_data_keeps_the_words_of_ome(client: PromqlClient) -> None:
    for answer in (vector(), vector("NaN"), vector("+Inf")):
        assert judged(await ask(client, reply(answer))).message == "no data"


@pytest.mark.parametrize(
    ("answer", "words"),
    [(never, "read timeout: no answer"), (dripping(0.05), "read timeout: the answer did not end")],
    ids=["no answer", "dripping"],
)
async def test_a_slow_source_times_out_and_says_which(client: PromqlClient, answer: Answer, words: str) -> None:
    outcome = await ask(client, answer, Query(text="up", timeout=0.3))
    assert isinstance(outcome, QueryTrouble)
    assert outcome.reason is Reason.TIMEOUT
    assert words in outcome.detail
    assert "the metric's timeout" in outcome.detail


async def test_a_connection_that_is_never_taken(client: PromqlClient) -> None:
    with hostile.full_backlog() as port:
        source = Bound(address=Address(host="127.0.0.1", port=port, path="/api/v1/query"))
        (outcome,) = await client.sample(source, [Query(text="up", timeout=0.3)], 5.0, 60.0)
    assert isinstance(outcome, QueryTrouble)
    assert (outcome.reason, outcome.detail.startswith("connect timeout")) == (Reason.TIMEOUT, True)


async def test_nothing_listens(client: PromqlClient) -> None:
    source = Bound(address=Address(host="127.0.0.1", port=hostile.closed_port(), path="/api/v1/query"))
    (outcome,) = await client.sample(source, [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryTrouble)
    assert (outcome.reason, outcome.permanent) == (Reason.SOURCE_UNREACHABLE, False)


async def test_a_slow_metric_does_not_starve_the_others(client: PromqlClient) -> None:
    """One after the other under one deadline, as OME does, would leave the second without an answer."""

    async def by_query(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        if b"slow" in forms[-1]:
            await asyncio.Event().wait()
        await reply(vector("0.5"))(_, writer, __)

    forms: list[bytes] = []
    async with serving(posted(by_query, forms)) as server:
        queries = [Query(text="slow", timeout=60.0), Query(text="fast")]
        slow, fast = await client.sample(at(server), queries, 0.5, 60.0)
    assert isinstance(slow, QueryTrouble)
    assert slow.reason is Reason.TIMEOUT
    assert "sample's deadline" in slow.detail
    assert isinstance(fast, QueryAnswer)


async def test_the_query_is_sent_as_a_form_with_its_time(client: PromqlClient) -> None:
    forms: list[bytes] = []
    async with serving(posted(reply(vector("1")), forms)) as server:
        (outcome,) = await client.sample(at(server), [Query(text='sum(a{b="c&d"})')], 5.0, 60.0)
    assert parse_qs(forms[0].decode()) == {"query": ['sum(a{b="c&d"})'], "time": [f"{T:.3f}"]}
    assert server.heads[0].startswith(b"POST /api/v1/query HTTP/1.1")
    assert isinstance(outcome, QueryAnswer)
    assert outcome.query == 'sum(a{b="c&d"})'


async def test_a_redirect_within_the_origin_is_followed_once_with_method_and_token(client: PromqlClient) -> None:
    async def moved(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        there = head.startswith(b"POST /moved")
        answer = reply(vector("0.5")) if there else error("307 Temporary", headers="Location: /moved\r\n")
        await answer(reader, writer, head)

    async with serving(posted(moved)) as server:
        (outcome,) = await client.sample(at(server, token="t0ken"), [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryAnswer)
    assert [b"Authorization: Bearer t0ken" in head for head in server.heads] == [True, True]


async def test_a_redirect_elsewhere_never_takes_the_token_along(client: PromqlClient) -> None:
    async with serving(posted(reply(vector("0.5")))) as other:
        location = f"Location: http://127.0.0.1:{other.port}/api/v1/query\r\n"
        async with serving(posted(error("308 Permanent", headers=location))) as server:
            (outcome,) = await client.sample(at(server, token="t0ken"), [Query(text="up")], 5.0, 60.0)
        assert isinstance(outcome, QueryTrouble)
        assert outcome.reason is Reason.REDIRECT_REFUSED
        assert other.heads == []


async def test_retry_after_is_honoured_up_to_the_interval(client: PromqlClient) -> None:
    async with serving(posted(error("503 Unavailable", headers="Retry-After: 3600\r\n"))) as server:
        (first,) = await client.sample(at(server), [Query(text="up")], 5.0, 30.0)
        (second,) = await client.sample(at(server), [Query(text="up")], 5.0, 30.0)
    assert isinstance(first, QueryTrouble)
    assert first.retry_after == 30.0
    assert isinstance(second, QueryTrouble)
    assert second.reason is Reason.SOURCE_UNAVAILABLE
    assert len(server.heads) == 1, "the second was not sent"


async def test_status_and_error_type_reach_the_message_and_the_token_does_not(client: PromqlClient) -> None:
    echo = reply(b'{"status":"error","errorType":"unauthorized","error":"token t0ken is bad"}', status="401 No")
    async with serving(posted(echo)) as server:
        (outcome,) = await client.sample(at(server, token="t0ken"), [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryTrouble)
    assert "401" in outcome.detail
    assert "unauthorized" in outcome.detail
    assert "t0ken" not in repr(outcome)


async def test_a_source_that_sends_our_secrets_back_in_an_answer_has_them_hidden(client: PromqlClient) -> None:
    found = [{"metric": {"said": "Bearer t0ken", "key": "an0ther"}, "value": [T, "0.5"]}]
    echo = reply(body(found, infos=["t0ken and an0ther"], warnings=["t0ken"]))
    async with serving(posted(echo)) as server:
        address = msgspec.structs.replace(at(server).address, headers=(("X-Key", "an0ther"),))
        bound = msgspec.structs.replace(at(server, token="t0ken"), address=address)
        (outcome,) = await client.sample(bound, [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryAnswer)
    assert outcome.points[0].value == 0.5
    assert dict(outcome.points[0].labels)["said"] == f"Bearer {HIDDEN}"
    assert "t0ken" not in repr(outcome)
    assert "an0ther" not in repr(outcome)


async def test_headers_reach_the_source(client: PromqlClient) -> None:
    async with serving(posted(reply(vector("1")))) as server:
        source = Source(server_address=f"http://127.0.0.1:{server.port}", headers=(("X-Scope-OrgID", "team"),))
        bound = bind(source, SourceRules(allow_server_address=True), "ns", None)
        assert isinstance(bound, Bound)
        await client.sample(bound, [Query(text="up")], 5.0, 60.0)
    assert b"X-Scope-OrgID: team" in server.heads[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_refused_addresses_are_refused_when_connecting(host: str) -> None:
    async with serving(posted(reply(vector("0.5")))) as server, PromqlClient(Now(), refusal) as client:
        address = Address(host=host, port=server.port, path="/api/v1/query")
        (outcome,) = await client.sample(Bound(address=address), [Query(text="up")], 5.0, 60.0)
        (trusted,) = await client.sample(
            Bound(address=Address(host="127.0.0.1", port=server.port), trusted=True), [Query(text="up")], 5.0, 60.0
        )
    assert isinstance(outcome, QueryTrouble)
    assert (outcome.reason, outcome.permanent) == (Reason.SOURCE_FORBIDDEN, True)
    assert "loopback" in outcome.detail
    assert isinstance(trusted, QueryAnswer), "a bound provider is the operator's own word"


async def test_metadata_addresses_are_refused_before_anything_is_sent() -> None:
    async with PromqlClient(Now(), refusal) as client:
        source = Bound(address=Address(host="169.254.169.254", port=80))
        (outcome,) = await client.sample(source, [Query(text="up")], 5.0, 60.0)
    assert isinstance(outcome, QueryTrouble)
    assert outcome.reason is Reason.SOURCE_FORBIDDEN


async def test_a_private_authority_and_a_client_certificate(client: PromqlClient, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine = authority.issue("client", names=("client",))
    context = authority.server(authority.issue("prom", names=("127.0.0.1",)), client_ca=authority.ca_file)
    tls = Tls(ca_file=authority.ca_file, cert_file=mine[0], key_file=mine[1])
    async with serving(posted(reply(vector("0.5"))), tls=context) as server:

        def source(tls: Tls | None) -> Bound:
            return Bound(address=Address(scheme="https", host="127.0.0.1", port=server.port, tls=tls))

        (good,) = await client.sample(source(tls), [Query(text="up")], 5.0, 60.0)
        (unknown,) = await client.sample(source(None), [Query(text="up")], 5.0, 60.0)
    assert isinstance(good, QueryAnswer)
    assert isinstance(unknown, QueryTrouble)
    assert unknown.reason is Reason.SOURCE_UNREACHABLE
    assert "caFile" in unknown.detail


TOKEN_FILES: dict[str, tuple[bytes | None, bytes | None]] = {
    "a token and a newline": (b"t0ken\n", b"Bearer t0ken"),
    "no file": (None, None),
    "an empty file": (b"\n", None),
    "two lines": (b"a\nb\n", None),
}


@pytest.mark.parametrize("case", TOKEN_FILES)
async def test_token_files_are_read_again_and_sent_only_whole(client: PromqlClient, tmp_path: Path, case: str) -> None:
    content, sent = TOKEN_FILES[case]
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    async with serving(posted(reply(vector("1")))) as server:
        rules = SourceRules(
            providers={"p": Provider(server_address=f"http://127.0.0.1:{server.port}/prom/", token_file=str(file))}
        )
        bound = bind(Source(provider="p"), rules, "ns", None)
        assert isinstance(bound, Bound)
        (outcome,) = await client.sample(bound, [Query(text="up")], 5.0, 60.0)
        if sent is not None:
            file.write_bytes(b"other\n")
            await client.sample(bound, [Query(text="up")], 5.0, 60.0)
    if sent is None:
        assert isinstance(outcome, QueryTrouble)
        assert (outcome.reason, outcome.permanent, server.heads) == (Reason.AUTH_SECRET_MISSING, True, [])
    else:
        assert [line for head in server.heads for line in head.split(b"\r\n") if line.startswith(b"Authorization")] == [
            b"Authorization: " + sent,
            b"Authorization: Bearer other",
        ]
        assert server.heads[0].startswith(b"POST /prom/api/v1/query ")


async def test_basic_authentication_of_a_provider(client: PromqlClient, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pw\n")
    basic = BasicAuth(username="u", password_file=str(tmp_path / "password"))
    async with serving(posted(reply(vector("1")))) as server:
        rules = SourceRules(
            providers={"p": Provider(server_address=f"http://127.0.0.1:{server.port}", basic=basic)},
            default_provider="p",
        )
        bound = bind(None, rules, "ns", None)
        assert isinstance(bound, Bound)
        await client.sample(bound, [Query(text="up")], 5.0, 60.0)
    assert b"Authorization: Basic dTpwdw==" in server.heads[0]


PROMETHEUS = Provider(server_address="http://prometheus.monitoring:9090", namespaces=("a",), headers=(("X-T", "p"),))
RULES = SourceRules(providers={"main": PROMETHEUS})
BINDINGS: dict[str, tuple[Callable[[], Bound | QueryTrouble], Reason | None]] = {
    "bound": (lambda: bind(Source(provider="main"), RULES, "a", None), None),
    "another namespace": (lambda: bind(Source(provider="main"), RULES, "b", None), Reason.PROVIDER_UNBOUND),
    "not bound": (lambda: bind(Source(provider="mian"), RULES, "a", None), Reason.PROVIDER_UNBOUND),
    "a default that is not bound": (
        lambda: bind(None, SourceRules(default_provider="gone"), "a", None),
        Reason.PROVIDER_UNBOUND,
    ),
    "nothing": (lambda: bind(None, RULES, "a", None), Reason.NO_SOURCE),
    "a raw address": (lambda: bind(Source(server_address="http://p:1"), RULES, "a", None), Reason.SOURCE_FORBIDDEN),
    "not a URL": (
        lambda: bind(Source(server_address="ftp://p"), SourceRules(allow_server_address=True), "a", None),
        Reason.SOURCE_FORBIDDEN,
    ),
    "user in the URL": (
        lambda: bind(Source(server_address="http://u:p@h:1"), SourceRules(allow_server_address=True), "a", None),
        Reason.SOURCE_FORBIDDEN,
    ),
}


@pytest.mark.parametrize("case", BINDINGS)
def test_sources_are_bound_or_refused_and_never_replaced(case: str) -> None:
    make, reason = BINDINGS[case]
    found = make()
    if reason is None:
        assert isinstance(found, Bound)
        assert found.trusted
    else:
        assert isinstance(found, QueryTrouble)
        assert (found.reason, found.permanent) == (reason, True)


SECRETS: dict[str, tuple[dict[str, bytes] | None, Reason | None]] = {
    "no Secret": (None, Reason.AUTH_SECRET_MISSING),
    "no key": ({"other": b"x"}, Reason.AUTH_SECRET_KEY_MISSING),
    "empty": ({"token": b"\n"}, Reason.AUTH_SECRET_EMPTY),
    "a newline inside": ({"token": b"a\nb"}, Reason.AUTH_SECRET_INVALID),
    "not ASCII": ({"token": "ä".encode()}, Reason.AUTH_SECRET_INVALID),
    "a newline at the end": ({"token": b"abc\n"}, None),
}


@pytest.mark.parametrize("case", SECRETS)
def test_secrets(case: str) -> None:
    from router_contract.canary import SecretKey

    data, reason = SECRETS[case]
    source = Source(provider="main", auth=SecretKey(name="prom", key="token"), headers=(("x-t", "mine"),))
    found = bind(source, RULES, "a", data)
    if reason is None:
        assert isinstance(found, Bound)
        assert (found.token, found.address.headers) == ("abc", (("x-t", "mine"),))
    else:
        assert isinstance(found, QueryTrouble)
        assert (found.reason, found.permanent) == (reason, True)


async def test_a_query_whose_turn_never_comes_says_so() -> None:
    async with PromqlClient(Now(), lambda _: None, at_once=1) as client, serving(posted(never)) as server:
        queries = [Query(text="one", timeout=60.0), Query(text="two", timeout=60.0)]
        one, two = await client.sample(at(server), queries, 0.3, 60.0)
    assert isinstance(one, QueryTrouble)
    assert isinstance(two, QueryTrouble)
    assert "sample's deadline" in one.detail
    assert "before this query's turn" in two.detail


SIGNS = f'up{{a="{"(" * 500}{"+" * 500}"}} # {"(" * 500}'
CHECKS = {
    "renders": ('up{namespace="{{.Namespace}}"}', 'up{namespace="ns"}', None),
    "unknown field": ("up{{.Nope}}", None, Reason.QUERY_INVALID),
    "syntax": ("sum(up", None, Reason.QUERY_INVALID),
    "range": ("up[5m]", None, Reason.UNSUPPORTED_TYPE),
    "empty variable": ('up{rev="{{.StableRevision}}"}', None, Reason.EMPTY_VARIABLE),
    "signs in texts nest nothing": (SIGNS, SIGNS, None),
    "long and shallow": ("1" + " + 1" * 256, "1" + " + 1" * 256, None),
    # What the parser has no stack for ends the process: without the limit these end the whole run of tests.
    "parentheses without end": ("(" * 8000 + "1" + ")" * 8000, None, Reason.QUERY_INVALID),
    "calls without end": ("abs(" * 3000 + "up" + ")" * 3000, None, Reason.QUERY_INVALID),
    "a sum without end": ("1" + "+1" * 8000, None, Reason.QUERY_INVALID),
    "alternatives without end": ("a" + " or a" * 3200, None, Reason.QUERY_INVALID),
    "a quote that does not close": ('"' + "(" * 8000, None, Reason.QUERY_INVALID),
}


@pytest.mark.parametrize("case", CHECKS)
def test_queries_are_checked_before_the_first_sample(case: str) -> None:
    from observer.collect.promql_check import prepared

    query, text, reason = CHECKS[case]
    found = prepared(query, {"Namespace": "ns", "StableRevision": ""})
    if reason is None:
        assert found == text
    else:
        assert isinstance(found, QueryTrouble)
        assert (found.reason, found.permanent) == (reason, True)
