"""What the cache pool and the scaler that a deployment refers to tell in its explanation."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.platform_facts import PoolFact, RouterContract, ScalerFact
from tests.judge.build import deployment, facts, inputs, member, replica, role, run

UNSET = msgspec.UNSET
CONTRACT = RouterContract(name="r", pool_endpoint="a:1")


def told(**given):
    target = deployment(role(replica(member("a"))))
    explanation = run(inputs(target, facts=facts(**given))).explanation
    found = [item for item in (explanation.main, *explanation.others, *explanation.unknown) if item is not None]
    return [
        (item.type, item.status, item.reason, item.message) for item in found if item.type in {"CachePool", "Scaler"}
    ]


def differs(contract, pool):
    said = f"the contract publishes {contract}; the pool p itself says {pool}"
    return [("CachePool", "False", "EndpointDiffers", said)]


GONE = [("CachePool", "Unknown", "PoolNotFound", "no pool p is found")]
POOLS = {
    "nobody could look": (UNSET, CONTRACT, []),
    "no pool": (None, CONTRACT, []),
    "not found": (PoolFact(name="p", found=False), CONTRACT, GONE),
    "the same": (PoolFact(name="p", found=True, endpoint="a:1"), CONTRACT, []),
    "another": (PoolFact(name="p", found=True, endpoint="b:1"), CONTRACT, differs("a:1", "b:1")),
    "the pool tells none": (PoolFact(name="p", found=True), CONTRACT, differs("a:1", "none")),
    "the contract tells none": (
        PoolFact(name="p", found=True, endpoint="b:1"),
        RouterContract(name="r"),
        differs("no pool endpoint", "b:1"),
    ),
    "neither tells one": (PoolFact(name="p", found=True), RouterContract(name="r"), []),
    "no contract": (PoolFact(name="p", found=True, endpoint="b:1"), None, []),
    "a contract that was not read": (PoolFact(name="p", found=True, endpoint="b:1"), UNSET, []),
}


@pytest.mark.parametrize(("pool", "contract", "wanted"), POOLS.values(), ids=POOLS)
def test_the_pool_endpoint_of_the_contract_is_compared_with_the_pools_own(pool, contract, wanted):
    assert told(pool=pool, contract=contract) == wanted


@pytest.mark.parametrize("found", [UNSET, True, False])
def test_a_scaler_that_is_gone_is_told(found):
    said = "the scaler s that the annotations name is not found"
    wanted = [("Scaler", "Unknown", "ScalerNotFound", said)] if found is False else []
    assert told(scaler=ScalerFact(binding="s", name="s", found=found)) == wanted
