"""The client against a real HTTP server: credentials, limits, failures as values."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from observer.clock import SystemClock
from observer.kube.answers import Answer, Outcome
from observer.kube.client import ApiClient, ClientTuning
from observer.kube.identity import Credentials, CredentialsError
from tests.fakes.kube_api import FakeKube
from tests.kube.steady import PlainCredentials

TUNING = ClientTuning(rate=1000.0, burst=1000.0, seconds=5.0)


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        fake.put("pods", "a")
        yield fake


@contextlib.asynccontextmanager
async def client_of(credentials: Credentials, tuning: ClientTuning = TUNING) -> AsyncIterator[ApiClient]:
    async with ApiClient(credentials, SystemClock(), tuning) as client:
        yield client


async def test_a_401_reloads_the_credentials_once(kube: FakeKube) -> None:
    kube.faults.append(("GET", 401, {"kind": "Status", "code": 401}))
    credentials = PlainCredentials(kube.url, "old", "new")
    async with client_of(credentials) as client:
        answer = await client.request("GET", "/api/v1/pods")
    assert (answer.outcome, credentials.refreshes) == (Outcome.OK, 1)
    assert [headers["Authorization"] for headers in kube.headers] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_the_answer(kube: FakeKube) -> None:
    kube.faults.extend([("GET", 401, {"kind": "Status"})] * 2)
    credentials = PlainCredentials(kube.url, "old")
    async with client_of(credentials) as client:
        answer = await client.request("GET", "/api/v1/pods")
        assert (answer.outcome, credentials.refreshes, client.requests[Outcome.UNAUTHORIZED]) == (
            Outcome.UNAUTHORIZED,
            1,
            1,
        )


async def test_many_calls_that_meet_a_401_reload_the_credentials_once_together(kube: FakeKube) -> None:
    kube.hang.clear()
    kube.faults.extend([("GET", 401, {"kind": "Status"})] * 5)
    credentials = PlainCredentials(kube.url, "old", "new", "newer")
    async with client_of(credentials) as client:
        calls = [asyncio.create_task(client.request("GET", "/api/v1/pods")) for _ in range(5)]
        async with asyncio.timeout(5):
            while len(kube.log) < 5:
                await asyncio.sleep(0.005)
        kube.hang.set()
        assert {(await call).outcome for call in calls} == {Outcome.OK}
    assert credentials.refreshes == 1


async def test_a_watch_that_meets_a_401_reloads_the_credentials_too(kube: FakeKube) -> None:
    kube.faults.append(("GET", 401, {"kind": "Status"}))
    credentials = PlainCredentials(kube.url, "old", "new")
    query = {"watch": "1", "resourceVersion": "0", "timeoutSeconds": "5"}
    async with (
        client_of(credentials) as client,
        contextlib.aclosing(client.watch("/api/v1/pods", query, 5.0)) as lines,
    ):
        first = await anext(lines)
    assert isinstance(first, bytes)
    assert b'"ADDED"' in first
    assert credentials.refreshes == 1


class BrokenCredentials(PlainCredentials):
    async def headers(self) -> dict[str, str]:
        raise CredentialsError("token of the in-cluster service account: found no file")


async def test_credentials_that_cannot_be_read_are_an_answer(kube: FakeKube) -> None:
    async with client_of(BrokenCredentials(kube.url)) as client:
        answer = await client.request("GET", "/api/v1/pods")
        async with contextlib.aclosing(client.watch("/api/v1/pods", {}, 1.0)) as lines:
            items = [line async for line in lines]
    assert (answer.outcome, answer.message) == (
        Outcome.UNAUTHORIZED,
        "token of the in-cluster service account: found no file",
    )
    assert [isinstance(item, Answer) and item.outcome for item in items] == [Outcome.UNAUTHORIZED]


async def test_a_call_that_hangs_ends_in_its_time(kube: FakeKube) -> None:
    kube.hang.clear()
    async with client_of(PlainCredentials(kube.url)) as client:
        begun = time.monotonic()
        answer = await client.request("GET", "/api/v1/pods", seconds=0.2)
        assert time.monotonic() - begun < 3.0
    assert (answer.outcome, answer.message) == (Outcome.SILENT, "no answer within 0.2 s")


async def test_nobody_listening_is_an_answer(kube: FakeKube) -> None:
    await kube.down()
    async with client_of(PlainCredentials(kube.url)) as client:
        answer = await client.request("GET", "/api/v1/pods")
        async with contextlib.aclosing(client.watch("/api/v1/pods", {"watch": "1"}, 1.0)) as lines:
            items = [line async for line in lines]
    assert (answer.outcome, answer.status) == (Outcome.NO_ANSWER, 0)
    assert [isinstance(item, Answer) and item.outcome for item in items] == [Outcome.NO_ANSWER]


async def test_an_answer_beyond_the_limit_is_not_read(kube: FakeKube) -> None:
    kube.put("pods", "big", spec={"x": "y" * 5000})
    async with client_of(PlainCredentials(kube.url), msgspec.structs.replace(TUNING, body=1000)) as client:
        answer = await client.request("GET", "/api/v1/pods")
    assert (answer.outcome, answer.message) == (Outcome.TOO_LARGE, "the answer is longer than 1000 bytes")


async def test_requests_wait_for_their_turn_and_urgent_ones_do_not(kube: FakeKube) -> None:
    async with client_of(PlainCredentials(kube.url), msgspec.structs.replace(TUNING, rate=5.0, burst=1.0)) as client:
        begun = time.monotonic()
        await client.request("GET", "/api/v1/pods")
        for _ in range(5):
            await client.request("GET", "/api/v1/pods", urgent=True)
        urgent = time.monotonic() - begun
        await client.request("GET", "/api/v1/pods")
        await client.request("GET", "/api/v1/pods")
        assert time.monotonic() - begun >= 0.38 > urgent or urgent >= 0.38


async def test_text_503_from_aggregator(kube: FakeKube) -> None:
    kube.faults.append(("GET", 503, "service unavailable\n"))
    async with client_of(PlainCredentials(kube.url)) as client:
        answer = await client.request("GET", "/apis/metrics.modeldeployment.io/v1/modeldeploymentmetrics")
    assert (answer.outcome, answer.message) == (Outcome.UNAVAILABLE, "service unavailable")
