"""The writer against a small API server over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import orjson
import pytest

from observer.kube.answers import Outcome
from observer.kube.client import ApiClient, ClientTuning
from observer.kube.intent import MANAGER, Intent, Key, Stored
from observer.kube.pacing import BackOff
from observer.kube.records import document
from observer.kube.status_writer import StatusWriter, WriterTuning
from observer.kube.writing import WritingRules
from tests.fakes.kube_api import FakeKube
from tests.kube.steady import PlainCredentials, TurnedClock, until
from tests.kube.test_writing import FOREIGN, MD, PREFIX, SERVING, intent

BASE = "/apis/worker.gpustack.ai/v1alpha1"
OBJECT = (f"{BASE}/modeldeployments", "ns", "md")


class Writing:
    """A writer that runs; what it looks up is what the server holds, unless ``frozen`` holds an older object."""

    def __init__(self, kube: FakeKube, tuning: WriterTuning) -> None:
        self.kube = kube
        self.clock = TurnedClock()
        self.client = ApiClient(PlainCredentials(kube.url), self.clock, ClientTuning(rate=1e3, burst=1e3))
        self.frozen: dict[str, Any] | None = None
        self.may = True
        self.writer = StatusWriter(
            self.client,
            self.clock,
            lookup=self.lookup,
            chance=random.Random(1).random,
            tuning=tuning,
            may=lambda: self.may,
        )

    def lookup(self, key: Key) -> Stored | None:
        held = self.frozen or self.kube.objects.get((f"{BASE}/{key[0].plural}", key[1], key[2]))
        return None if held is None else Stored.of(document(_raw(held)))

    @property
    def patches(self) -> int:
        return len(self.kube.paths("PATCH"))

    @property
    def conditions(self) -> dict[str, str]:
        return {
            each["type"]: each["status"] for each in self.kube.objects[OBJECT].get("status", {}).get("conditions", [])
        }

    def turn(self, seconds: float) -> None:
        """Let time pass: what is due then is decided now."""
        self.clock.turned += seconds
        self.writer.submit(self.writer._intents[intent().key])

    def wipe(self) -> None:
        """What an operator does that replaces the whole status."""
        self.kube.replace(OBJECT, {"status": {"conditions": [FOREIGN]}})
        self.writer.changed(intent().key)


def _raw(value: dict[str, Any]) -> Any:
    return msgspec.Raw(orjson.dumps(value))


AT_ONCE = WriterTuning(start=0.0)


@contextlib.asynccontextmanager
async def writing(kube: FakeKube, tuning: WriterTuning = AT_ONCE) -> AsyncIterator[Writing]:
    it = Writing(kube, tuning)
    async with it.client:
        task = asyncio.create_task(it.writer.run())
        try:
            yield it
        finally:
            assert not task.done(), f"the writer ended: {task}"
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        fake.put("modeldeployments", "md", base=BASE, status={"conditions": [FOREIGN]})
        yield fake


def uid(kube: FakeKube) -> str:
    return str(kube.objects[OBJECT]["metadata"]["uid"])


def wanted(kube: FakeKube, status: str = "True", message: str = "all serve", **more: Any) -> Intent:
    return intent(status, message, uid=uid(kube), **more)


async def test_a_condition_is_applied_beside_the_owners_never_forced(kube: FakeKube) -> None:
    async with writing(kube) as it:
        it.writer.submit(wanted(kube))
        await until(lambda: it.conditions.get(SERVING) == "True")
        assert it.conditions["Ready"] == "True"
        (query,) = [query for method, _, query in kube.log if method == "PATCH"]
        assert query == {"fieldManager": MANAGER}
        for _ in range(3):
            it.writer.submit(wanted(kube))
        it.writer.changed(intent().key)
        await asyncio.sleep(0.05)
        assert it.patches == 1
        standing = it.writer.standing(intent().key)
        assert standing is not None
        assert (standing.reason, standing.stopped, standing.outcome) == ("nothing changed", False, Outcome.OK)


async def test_the_latest_intent_is_the_one_written(kube: FakeKube) -> None:
    async with writing(kube) as it:
        for status in ("True", "False", "Unknown"):
            it.writer.submit(wanted(kube, status))
        await until(lambda: it.conditions.get(SERVING) == "Unknown")
        assert it.patches == 1


async def test_owner_put_wiping_our_condition(kube: FakeKube) -> None:
    """An operator that keeps rewriting the whole status starts no duel: two writes of ours, then none."""
    async with writing(kube) as it:
        it.writer.submit(wanted(kube))
        await until(lambda: SERVING in it.conditions)
        it.writer.changed(intent().key)
        it.wipe()
        await asyncio.sleep(0.05)
        assert it.patches == 1
        it.turn(31.0)
        await until(lambda: SERVING in it.conditions)
        it.wipe()
        for _ in range(20):
            it.turn(31.0)
            await asyncio.sleep(0.005)
        assert it.patches == 2
        assert it.writer.stopped() == (intent().key,)
        standing = it.writer.standing(intent().key)
        assert standing is not None
        assert standing.stopped
        assert "somebody rewrites the status" in standing.reason


async def test_stale_write_on_re_created_object(kube: FakeKube) -> None:
    """The informer has not heard yet that the object was made anew: the version in the apply keeps ours away from it."""
    async with writing(kube) as it:
        it.frozen = dict(kube.objects[OBJECT])
        kube.delete("modeldeployments", "md", base=BASE)
        old = it.frozen["metadata"]["uid"]
        kube.put("modeldeployments", "md", base=BASE, status={"conditions": []})
        assert uid(kube) != old
        it.writer.submit(intent(uid=old))
        await until(lambda: it.writer.outcomes[Outcome.CONFLICT])
        assert it.conditions == {}
        it.frozen = None
        it.writer.changed(intent().key)
        await asyncio.sleep(0.05)
        assert (it.patches, it.conditions) == (1, {}), "nor later: another object was judged"
        it.writer.submit(wanted(kube))
        await until(lambda: SERVING in it.conditions)


async def test_ssa_500_on_undeclared_field(kube: FakeKube) -> None:
    it_wants = Intent(
        resource=MD,
        namespace="ns",
        name="md",
        uid=uid(kube),
        observed_generation=1,
        conditions=(),
        fields={"novel": 1},
    )
    kube.objects[OBJECT]["status"] = {}
    async with writing(kube) as it:
        it.writer.submit(it_wants)
        await until(lambda: it.writer.outcomes[Outcome.UNDECLARED])
        await asyncio.sleep(0.05)
        assert it.patches == 1
        standing = it.writer.standing(it_wants.key)
        assert standing is not None
        assert standing.reason == "Undeclared: .status.novel: field not declared in schema"


async def test_a_condition_that_another_manager_owns_is_left_to_it(kube: FakeKube) -> None:
    kube.managers[OBJECT] = {SERVING: "somebody"}
    kube.objects[OBJECT]["status"]["conditions"].append({**FOREIGN, "type": SERVING})
    async with writing(kube) as it:
        it.writer.submit(wanted(kube))
        await until(lambda: it.writer.outcomes[Outcome.OWNED])
        await asyncio.sleep(0.05)
        assert it.patches == 1
        standing = it.writer.standing(intent().key)
        assert standing is not None
        assert standing.reason == 'Owned: conflict with "somebody"'


async def test_a_conflict_waits_for_the_newer_object(kube: FakeKube) -> None:
    async with writing(kube) as it:
        it.frozen = dict(kube.objects[OBJECT])
        kube.put("modeldeployments", "md", base=BASE, status={"conditions": [FOREIGN]}, spec={"replicas": 2})
        it.writer.submit(wanted(kube))
        await until(lambda: it.writer.outcomes[Outcome.CONFLICT] == 1)
        await asyncio.sleep(0.05)
        assert it.patches == 1
        it.frozen = None
        it.writer.changed(intent().key)
        await until(lambda: SERVING in it.conditions)
        assert it.patches == 2


async def test_two_replicas_same_manager_different_sets(kube: FakeKube) -> None:
    """The later apply is the whole truth, and the earlier replica, woken by it, does not write a mixture of both."""
    other = PREFIX + "Other"
    async with writing(kube) as one, writing(kube) as two:
        one.writer.submit(wanted(kube, types=(SERVING, other)))
        await until(lambda: set(one.conditions) == {"Ready", SERVING, other})
        two.writer.submit(wanted(kube))
        await until(lambda: set(one.conditions) == {"Ready", SERVING})
        one.writer.withdraw(intent().key)
        one.writer.changed(intent().key)
        await asyncio.sleep(0.05)
        assert set(one.conditions) == {"Ready", SERVING}
        assert (one.patches, one.writer.standing(intent().key)) == (2, None)


async def test_writes_keep_to_their_rate(kube: FakeKube) -> None:
    for number in range(8):
        kube.put("modeldeployments", f"md-{number}", base=BASE, status={})
    async with writing(kube, WriterTuning(start=0.0, rate=10.0, burst=3.0)) as it:
        for number in range(8):
            name = f"md-{number}"
            held = kube.objects[f"{BASE}/modeldeployments", "ns", name]["metadata"]["uid"]
            it.writer.submit(
                Intent(
                    resource=MD, namespace="ns", name=name, uid=held, observed_generation=1,
                    conditions=wanted(kube).conditions, prefix=PREFIX,
                )
            )  # fmt: skip
        await until(lambda: it.patches >= 3)
        await asyncio.sleep(0.02)
        assert it.patches <= 5
        await until(lambda: it.patches == 8)


async def test_an_api_that_is_away_is_tried_again(kube: FakeKube) -> None:
    rules = WritingRules(back_off=BackOff(first=0.01, longest=0.02))
    kube.faults.extend([("PATCH", 503, "service unavailable"), ("PATCH", 429, {"kind": "Status"})])
    async with writing(kube, WriterTuning(start=0.0, rules=rules)) as it:
        it.writer.submit(wanted(kube))
        await until(lambda: SERVING in it.conditions)
        assert (it.writer.outcomes[Outcome.UNAVAILABLE], it.writer.outcomes[Outcome.THROTTLED]) == (1, 1)


async def test_an_object_that_is_gone_is_asked_for_once(kube: FakeKube) -> None:
    async with writing(kube) as it:
        it.frozen = dict(kube.objects[OBJECT])
        asked = wanted(kube)
        kube.delete("modeldeployments", "md", base=BASE)
        it.writer.submit(asked)
        await until(lambda: it.writer.outcomes[Outcome.NOT_FOUND])
        await asyncio.sleep(0.05)
        assert it.patches == 1


async def test_a_writer_that_may_not_write_writes_nothing_and_then_the_latest(kube: FakeKube) -> None:
    """Whose Lease ran out stops at once, by its own clock, whatever is queued."""
    async with writing(kube) as it:
        it.may = False
        it.writer.submit(wanted(kube))
        it.writer.submit(wanted(kube, message="one serves"))
        await asyncio.sleep(0.05)
        assert it.patches == 0
        it.may = True
        it.turn(2.0)
        await until(lambda: it.patches == 1)
        assert kube.bodies[-1]["status"]["conditions"][0]["message"] == "one serves"
