"""Analyses joined to the rest on a clock set by hand: what another run, another owner or a clock that was set may not do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from exporters.canary_document import Asked, gate_document
from observer.app.canary import Canaries
from observer.app.canary_keeping import ABSENT
from observer.app.canary_queries import QuerySource
from observer.collect.options import CanaryProvider, CanarySettings
from observer.settings import Settings
from router_contract.canary import (
    Analysis,
    CanaryAnalysis,
    Metric,
    NativeKind,
    NativeMetric,
    Operator,
    PromqlMetric,
    Relative,
    Source,
    Step,
    TargetRef,
)
from router_contract.canary_results import CanaryState, CanaryStatus, Decision, Reason, Verdict
from router_contract.canary_view import CanaryView
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey
from tests.fleets import KEY, WALL, HandClock, body, deployment, member, store, take

OWN = DeploymentKey(KEY.namespace, "x")
TOKENS = NativeMetric(kind=NativeKind.RATE, signal="prompt-tokens")
SLOWER = NativeMetric(kind=NativeKind.QUANTILE, signal="time-to-first-token", quantile=0.5, relative=Relative())
PODS = deployment(members=tuple(member(name, 8000 + at, revision=str(at)) for at, name in enumerate("abc", 1)))


def defined(
    measure: NativeMetric | PromqlMetric = TOKENS,
    stable: str = "1",
    canary: str = "2",
    operator: Operator = Operator.LT,
    steps: int = 1,
    **more: Any,
) -> CanaryAnalysis:
    metric = Metric(name="m", operator=operator, threshold="10", limit=10.0, measure=measure)
    gate = Analysis(**({"interval": 30.0, "failure_limit": 5, "metrics": (metric,)} | more))
    return CanaryAnalysis(
        namespace=KEY.namespace,
        name="x",
        target=TargetRef(kind="ModelDeployment", name=KEY.name),
        component="engine",
        stable=stable,
        canary=canary,
        steps=(Step(analysis=gate),) * steps,
    )


class Memory:
    """Keeps states for several observers."""

    keep_seconds = 0.0

    def __init__(self) -> None:
        self.version = 0
        self.state: CanaryState | None = None

    async def load(self, key: DeploymentKey) -> tuple[str, CanaryState | None]:
        assert key == OWN
        return str(self.version) if self.state is not None else ABSENT, self.state

    async def swap(self, _: DeploymentKey, version: str, state: CanaryState, __: CanaryStatus) -> str | None:
        if version != (str(self.version) if self.state is not None else ABSENT):
            return None
        self.version, self.state = self.version + 1, state
        return str(self.version)

    async def forget(self, _: DeploymentKey) -> None:
        self.state = None


class Observer:
    """One observer of three Pods, one of each revision."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.clock, self.owned = HandClock(), True
        self.store = store(self.clock)
        self.store.set_deployments((PODS,), self.clock.now())
        self.canaries = Canaries(self.store, self.clock, Settings(), memory, lambda _: self.owned)

    async def look(self, seconds: float, tokens: float | None = None, pods: Iterable[str] = "abc", **more: Any) -> None:
        self.clock.set(seconds)
        for name in pods if tokens is not None else ():
            take(self.store, PODS, name, body(tokens=tokens, **more), seconds)
        await self.canaries.look()

    def view(self) -> CanaryView:
        found = self.canaries.canary(OWN)
        assert found is not None
        return found

    def gate(self) -> tuple[str, str]:
        told = gate_document(self.view(), Asked(max_age=600.0))
        assert told is not None
        return told["verdict"], told["reason"]


async def test_the_next_rollout_has_no_baseline_of_the_one_before() -> None:
    """What stable counted is the old stable revision's, whatever the definition calls stable by now."""
    made = Observer()
    await made.canaries.watch([defined(SLOWER)])
    await made.look(1, 1)
    await made.look(6, 1, counts=(501.0, 502.0, 503.0), total=30.0)
    await made.canaries.watch([defined(SLOWER, stable="2", canary="3")])
    for seconds in range(7, 80, 6):
        counts = (501.0 + seconds / 10, 502.0 + seconds / 10, 503.0 + seconds / 10)
        await made.look(seconds, 1, counts=counts, total=30.0 + seconds / 100)
    state = made.canaries._canaries[OWN].state
    assert state is not None
    (result,) = state.results
    assert (result.reason, state.bounds) == (Reason.BASELINE_FORMING, ()), "seven requests to the stable of this run"


async def test_a_clock_that_goes_back_makes_no_old_sample_new() -> None:
    memory = Memory()
    made = Observer(memory)
    await made.canaries.watch([defined(min_passes=9)])
    await made.look(1, 1)
    await made.look(31, 2)
    assert made.gate() == ("Passed", "MinPasses")
    canary = made.canaries._canaries[OWN]
    canary.sampling = True
    for mono, told in ((50.0, ("Passed", "MinPasses")), (5_000.0, ("Inconclusive", "Stale"))):
        made.clock.moment = Instant(mono, WALL - 3600.0)
        await made.canaries._look(canary, None)
        assert made.gate() == told, "in one process the age is that of the clock that nobody sets"
    again = Observer(memory)
    again.clock.moment = Instant(0.0, WALL - 3600.0)
    await again.canaries.watch([defined(min_passes=9)])
    await again.canaries._look(again.canaries._canaries[OWN], None)
    assert again.view().sample_age is None, "of a moment that has not come"
    assert again.gate() == ("Inconclusive", "Stale")


async def test_who_is_not_the_owner_takes_no_sample() -> None:
    made = Observer()
    await made.canaries.watch([defined()])
    await made.look(1, 1)
    canary = made.canaries._canaries[OWN]
    made.clock.set(100)
    assert made.canaries._due(canary) == 0.0
    made.owned = False
    assert made.canaries._due(canary) is None
    taken = canary.taken
    await made.look(200, 2)
    assert canary.taken == taken


async def test_an_incident_that_another_owner_has_counted_does_not_count_again() -> None:
    memory = Memory()
    first, second = Observer(memory), Observer(memory)
    for each in (first, second):
        await each.canaries.watch([defined()])
    second.owned = False
    await first.look(1, 1)
    await second.look(1, 1)
    first.owned, second.owned = False, True
    await second.look(2, 1)
    await second.look(20, 9000)
    await first.look(20, 9000)
    await second.look(33, 9001)
    assert memory.state is not None
    assert memory.state.failed_checks == 1
    first.owned, second.owned = True, False
    await first.look(34, 9001)
    await first.look(66, 9002)
    assert (memory.state.failed_checks, memory.state.verdict) == (1, Verdict.PASSED)


async def test_an_advance_is_not_published_as_the_next_steps_own() -> None:
    made = Observer()
    await made.canaries.watch([defined(steps=2)])
    await made.look(1, 1)
    await made.look(2, 2)
    await made.look(33, 3)
    status = made.view().status
    assert status is not None
    assert (status.current_step, status.decision, status.verdict) == (1, Decision.HOLD, None)
    assert status.message.startswith("Step 1 of 2 may advance")
    await made.look(64, 4)
    await made.look(95, 5)
    status = made.view().status
    assert status is not None
    assert (status.current_step, status.decision) == (2, Decision.ADVANCE)


def test_a_traffic_query_that_cannot_be_sent_is_said_at_once() -> None:
    provider = CanaryProvider(name="p", server_address="http://127.0.0.1:9")
    source = QuerySource(HandClock(), Settings(canary=CanarySettings(providers=(provider,))))
    measure = PromqlMetric(query="up", traffic_query="sum(")
    made = msgspec.structs.replace(defined(measure), source=Source(provider="p"))
    (told,) = source.troubles(made)
    assert told.startswith("m: QueryInvalid")
