"""The set of router Pods: each on its own schedule, none delays another, one that left says nothing any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from observer.clock import SystemClock
from observer.collect.fetch import Fetcher
from observer.collect.router_view import RouterMember, RouterViewReader, ViewOptions, router_members
from observer.supervise import Supervisor
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Address, Deployment, DeploymentKey, Member, RouterDeclaration
from tests.fakes import hostile
from tests.fakes.api import Api
from tests.fakes.hostile import reply

KEY = DeploymentKey("default", "d")
EMPTY = reply(b'{"workers":[]}')
QUICK = ViewOptions(period=0.1, timeout=0.4, busy_pause=0.01)


class Kept:
    """Keeps outcomes; `until` waits for so many of one router."""

    def __init__(self) -> None:
        self.outcomes: list[RouterView | ViewFailed] = []

    def __call__(self, deployment: DeploymentKey, outcome: RouterView | ViewFailed) -> None:
        assert deployment == KEY
        self.outcomes.append(outcome)

    def of(self, uid: str) -> list[RouterView | ViewFailed]:
        return [each for each in self.outcomes if each.pod_uid == uid]

    async def until(self, uid: str, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.of(uid)) < count:
                await asyncio.sleep(0.01)


def router(uid: str, port: int, **more: object) -> RouterMember:
    address = Address(host="127.0.0.1", port=port, path="")
    member = Member(uid=uid, name=uid, api=address, **more)  # type: ignore[arg-type]  # a test's shorthand
    return RouterMember(deployment=KEY, software="vllm_router", member=member)


@contextlib.asynccontextmanager
async def reading(fetcher: Fetcher, kept: Kept, most: int = 10) -> AsyncIterator[RouterViewReader]:
    clock = SystemClock()
    async with Supervisor(clock) as supervisor:
        yield RouterViewReader(
            fetcher=fetcher,
            sink=kept,
            clock=clock,
            supervisor=supervisor,
            circuits=lambda _: None,
            endpoints=lambda _: None,
            options=QUICK,
            most=most,
        )


async def test_a_router_that_hangs_delays_no_other(fetcher: Fetcher) -> None:
    kept = Kept()
    async with (
        Api({"/workers": EMPTY}).running() as good,
        Api({"/workers": hostile.never}).running() as bad,
        reading(fetcher, kept) as reader,
    ):
        await reader.sync([router("good", good.port), router("bad", bad.port)])
        await kept.until("good", 5)
        await kept.until("bad", 2)
    assert all(isinstance(each, RouterView) for each in kept.of("good"))
    assert {each.kind for each in kept.of("bad") if isinstance(each, ViewFailed)} == {"Timeout"}
    moments = [each.read_at.mono for each in kept.of("good") if isinstance(each, RouterView)]
    assert len(moments) <= (moments[-1] - moments[0]) / QUICK.period + 2.5, "once a period"


async def test_a_router_that_left_or_moved_is_read_no_more(fetcher: Fetcher) -> None:
    kept = Kept()
    async with (
        Api({"/workers": EMPTY}).running() as one,
        Api({"/workers": EMPTY}).running() as two,
        reading(fetcher, kept) as reader,
    ):
        await reader.sync([router("a", one.port), router("b", one.port)])
        await kept.until("a", 1)
        await kept.until("b", 1)
        await reader.sync([router("a", two.port)])
        before = len(one.asked), len(kept.of("b"))
        count = len(kept.of("a"))
        await kept.until("a", count + 2)
        assert (len(one.asked), len(kept.of("b"))) == before
        assert two.asked


async def test_a_newer_description_keeps_what_is_remembered_unless_the_container_restarted(fetcher: Fetcher) -> None:
    kept = Kept()
    async with Api({"/list_workers": reply(b'{"urls":[]}')}).running() as api, reading(fetcher, kept) as reader:
        await reader.sync([router("a", api.port, restarts=0)])
        await kept.until("a", 1)
        await reader.sync([router("a", api.port, restarts=0, terminating=True)])
        await kept.until("a", 3)
        assert api.asked.count("/workers") == 1
        await reader.sync([router("a", api.port, restarts=1)])
        await kept.until("a", len(kept.of("a")) + 2)
        assert api.asked.count("/workers") == 2


async def test_beyond_the_limit_routers_are_shed_visibly(fetcher: Fetcher) -> None:
    kept = Kept()
    async with Api({"/workers": EMPTY}).running() as api, reading(fetcher, kept, most=1) as reader:
        await reader.sync([router("a", api.port), router("b", api.port)])
        assert [key.member_uid for key in reader.shed] == ["b"]
        await kept.until("a", 1)
        await reader.sync([router("b", api.port)])
        assert reader.shed == ()
        await kept.until("b", 1)


def test_every_router_pod_is_asked_by_its_own_address() -> None:
    members = (Member(uid="1", name="r-1", terminating=True), Member(uid="2", name="r-2"))
    plain = Deployment(key=KEY, uid="u", router=RouterDeclaration(name="r", software="smg", members=members))
    found = list(router_members([plain, msgspec.structs.replace(plain, platform="gpustack", router=None)]))
    assert [(each.member.uid, each.software, each.patched) for each in found] == [
        ("1", "smg", False),
        ("2", "smg", False),
    ]
    assert all(each.patched for each in router_members([msgspec.structs.replace(plain, platform="gpustack")]))
