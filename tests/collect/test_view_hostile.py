"""What a hostile router answers, seen from outside: no secret of it is published, nothing of it is an exception."""

from __future__ import annotations

import json

import msgspec
import pytest

from exporters.encoding import encode
from exporters.status_views import view_entries
from observer.collect.fetch import Fetcher
from router_contract.router_views import RouterView, ViewFailed
from tests.collect.test_view_sources import ROW, World, patched
from tests.exporters.reports import Pods, gauge, report
from tests.fakes.api import Api
from tests.fakes.hostile import reply

SECRET = "hunter2"
HUGE = "9" * 400


def published(found: RouterView | ViewFailed) -> str:
    """Everything that the status document says of it, and the value itself."""
    made = msgspec.structs.replace(report(Pods().pod("p", gauge("requests-running", 1.0))), views=(found,))
    return encode(view_entries(made, {})).decode() + repr(found)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@10.0.0.1:8000",
        f"http://user:{SECRET}@10.0.0.1:8000@1",
        f"http://user:{SECRET}@10.0.0.1:x",
        f"http://10.0.0.1:8000/?token={SECRET}",
    ],
)
async def test_no_credential_in_a_worker_url_is_published(fetcher: Fetcher, url: str) -> None:
    routes = {"/observer/endpoints": reply(patched(ROW | {"url": url}))}
    async with Api(routes).running() as api:
        found = await World(fetcher, api, "vllm_router", patched=True).read()
        assert SECRET not in published(found)
    body = json.dumps({"workers": [{"url": url, "is_healthy": True}]}).encode()
    async with Api({"/workers": reply(body)}).running() as api:
        found = await World(fetcher, api, "vllm_router").read()
        assert SECRET not in published(found)


BODIES = {
    "load": f'{{"workers":[{{"url":"http://h:1","is_healthy":true,"load":{HUGE}}}]}}',
    "load of a fraction": f'{{"workers":[{{"url":"http://h:1","is_healthy":true,"load":{HUGE}.5}}]}}',
    "rank": f'{{"workers":[{{"url":"http://h:1@{HUGE}","is_healthy":true}}]}}',
    "more digits than an integer may have": f'{{"workers":[{{"url":"http://h:1","load":{"9" * 5000}}}]}}',
    "nesting": '{"workers":' + "[" * 5000 + "]" * 5000 + "}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_numbers_beyond_belief_are_a_view_or_a_failure(fetcher: Fetcher, body: str) -> None:
    async with Api({"/workers": reply(body.encode())}).running() as api:
        found = await World(fetcher, api, "vllm_router").read()
    assert published(found)


async def test_a_view_that_contradicts_itself_says_so(fetcher: Fetcher) -> None:
    other = ROW | {"selection": {"registered": True, "healthy": False, "circuit_open": True, "in_selection": False}}
    async with Api({"/observer/endpoints": reply(patched(ROW, other))}).running() as api:
        view = await World(fetcher, api, "vllm_router", patched=True).view()
    (problem,) = view.problems
    assert "http://10.0.0.1:8000 more than once with contradicting states" in problem
    assert problem in published(view)
