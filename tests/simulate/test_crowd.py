"""The crowd: many targets, few bodies."""

from __future__ import annotations

import asyncio

import aiohttp
import orjson
import pytest

from observer.settings import load_files
from observer.simulate.crowd import Crowd
from observer.simulate.spec import EngineSpec
from tests.simulate.harness import total


@pytest.mark.parametrize("software", ["vllm", "sglang"])
async def test_targets_share_bodies_that_move_with_booked_work(software: str, tmp_path) -> None:
    finished = "vllm:request_success_total" if software == "vllm" else "sglang:num_requests_total"
    warm = 0 if software == "vllm" else 3
    async with Crowd(EngineSpec(software=software), 12, shared=3) as crowd, aiohttp.ClientSession() as session:

        async def read(index: int) -> str:
            async with session.get(f"{crowd.targets[index].url}/metrics") as response:
                return await response.text()

        before = await asyncio.gather(*(read(index) for index in range(12)))
        assert all(before[index] == before[index % 3] for index in range(12))
        crowd.work(30)
        after = await asyncio.gather(*(read(index) for index in range(12)))
        assert sum(total(text, finished) for text in after[:3]) == 30 + warm
        assert crowd.reads == 24
        await crowd.targets[5].die()
        with pytest.raises(aiohttp.ClientConnectionError):
            await read(5)
        assert await read(8) == after[8]
        path = tmp_path / "crowd.yaml"
        path.write_bytes(orjson.dumps(crowd.document(replicas_each=5)))
        assert [len(list(each.targets())) for each in load_files([path]).deployments] == [5, 5, 2]


def test_an_empty_crowd_is_refused() -> None:
    with pytest.raises(ValueError, match="found 0 targets"):
        Crowd(EngineSpec(), 0)
