"""Elections by a Lease of a real kube-apiserver."""

from __future__ import annotations

import asyncio
import time
import urllib.error
from typing import Any

import pytest

from observer.kube.electing import Timing, micro_time
from observer.kube.resources import LEASES
from tests.cluster.control_plane import ControlPlane
from tests.cluster.running import background, client_for, elector
from tests.kube.steady import until

pytestmark = pytest.mark.cluster

QUICK = Timing(duration=2.0, deadline=1.4, retry=0.2)


def test_renewtime_without_microseconds(cluster: ControlPlane) -> None:
    path = LEASES.collection(cluster.namespace("micro"))

    def lease(name: str, renewed: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"holderIdentity": "a", "renewTime": renewed}}

    with pytest.raises(urllib.error.HTTPError) as refused:
        cluster.call("POST", path, lease("whole", "2026-01-01T00:00:01Z"))
    assert refused.value.code == 400
    refused.value.close()
    taken = cluster.call("POST", path, lease("ours", micro_time(1_767_225_601.0)))
    assert taken["spec"]["renewTime"] == "2026-01-01T00:00:01.000000Z"


async def test_one_leads_the_next_follows_and_a_lease_given_up_is_taken_at_once(cluster: ControlPlane) -> None:
    cluster.namespace("election")
    told: dict[str, list[bool]] = {"a": [], "b": []}

    def lease() -> dict[str, Any]:
        return dict(cluster.call("GET", LEASES.path("shard-0", "election"))["spec"])

    async with client_for(cluster.admin) as client:
        a = elector(client, "election", "a", told["a"], QUICK)
        b = elector(client, "election", "b", told["b"], QUICK)
        async with background(b.run):
            async with background(a.run):
                await until(lambda: a.leads or b.leads)
                begun = time.monotonic()
                while time.monotonic() - begun < 2.5:
                    assert not (a.leads and b.leads)
                    await asyncio.sleep(0.02)
            # Now a is dead without a word.
            died = time.monotonic()
            await until(lambda: b.leads)
            print(f"b leads {time.monotonic() - died:.2f} s after a died; Lease: {await asyncio.to_thread(lease)}")
        assert await b.release()
        spec = await asyncio.to_thread(lease)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
        async with background(a.run):
            freed = time.monotonic()
            await until(lambda: a.leads)
            assert time.monotonic() - freed < QUICK.duration
            assert (await asyncio.to_thread(lease))["leaseTransitions"] >= 1


async def test_a_leader_whose_api_is_killed_stops_in_time_and_leads_again(breakable_cluster: ControlPlane) -> None:
    cluster = breakable_cluster
    cluster.namespace("election")
    told: list[bool] = []
    async with client_for(cluster.admin) as client:
        a = elector(client, "election", "a", told, QUICK)
        async with background(a.run):
            await until(lambda: a.leads)
            cluster.apiserver.kill()
            killed = time.monotonic()
            await until(lambda: told == [True, False])
            assert time.monotonic() - killed < QUICK.duration, "before anybody else may lead"
            cluster.apiserver.start()
            await asyncio.to_thread(cluster.wait_ready)
            await until(lambda: told == [True, False, True], 20)
