"""The native source over a real store: which Pods count for which revision, from when, and by whose measurement."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from observer.app.canary_native import NativeSource
from observer.judge.canary.sample import judge_sample
from observer.measure.canary_cells import Counted, Gathering, Part
from router_contract.canary import (
    Analysis,
    CanaryAnalysis,
    MeasuredBy,
    Metric,
    NativeKind,
    NativeMetric,
    Operator,
    Relative,
    Step,
    TargetRef,
    WarmUp,
)
from router_contract.canary_inputs import BaselineKind, NativeObservation
from router_contract.canary_results import Reason, Verdict
from router_contract.targets import Deployment, Ready, Replica, Role, RoleKind
from tests.fleets import KEY, WALL, at, body, deployment, member, routed, store, take

TOKENS = NativeMetric(kind=NativeKind.RATE, signal="prompt-tokens")
TTFT = NativeMetric(kind=NativeKind.QUANTILE, signal="time-to-first-token", quantile=0.5)
OUTCOMES = NativeMetric(
    kind=NativeKind.RATIO,
    signal="router-worker-outcomes",
    total="router-worker-outcomes",
    where=(("outcome", "failure"),),
)


def definition(measure: NativeMetric, component: str = "engine", **more: Any) -> CanaryAnalysis:
    metric = Metric(name="m", operator=Operator.GTE, threshold="0", limit=0.0, measure=measure)
    gate = Analysis(interval=30.0, failure_limit=1, metrics=(metric,), **more)
    return CanaryAnalysis(
        namespace=KEY.namespace,
        name="x",
        target=TargetRef(kind="ModelDeployment", name=KEY.name),
        component=component,
        stable="1",
        canary="2",
        steps=(Step(analysis=gate),),
    )


class Watching:
    """A store and one analysis of it, whose step began at 0."""

    def __init__(self, of: Deployment, told: CanaryAnalysis) -> None:
        self.of, self.told, self.store = of, told, store()
        self.native = NativeSource(self.store, 12.0)
        self.step = Gathering("p", WALL)
        self.store.set_deployments((of,), at(0))

    def take(self, name: str, data: bytes, seconds: float) -> None:
        take(self.store, self.of, name, data, seconds)

    def look(self, seconds: float) -> NativeObservation:
        gate = self.told.steps[0].analysis
        assert gate is not None
        sides = self.native.sides(self.told)
        self.native.look(sides, gate, self.step, at(seconds))
        (seen,) = self.native.observe(sides, gate, self.step, at(seconds))
        return seen


def events(seen: NativeObservation) -> tuple[float, float]:
    """What canary and stable counted."""
    stable = seen.stable.window.cells if seen.stable is not None else ()
    return math.fsum(c.events for c in seen.since_step.cells), math.fsum(c.events for c in stable)


def two(**more: Any) -> Deployment:
    return deployment(members=(member("a", 8000, revision="1"), member("b", 8001, revision="2", **more)))


def test_each_pod_counts_for_its_revision_from_the_step_on() -> None:
    made = Watching(two(), definition(TOKENS))
    for name, tokens in (("a", 100), ("b", 1000)):
        made.take(name, body(tokens=tokens), 1.0)
        made.take(name, body(tokens=tokens + 50), 2.0)
    assert events(made.look(3.0)) == (0, 0), "what came before the first look is not of this step"
    made.take("a", body(tokens=157), 5.0)
    made.take("b", body(tokens=1061), 6.0)
    seen = made.look(7.0)
    assert events(seen) == (11, 7)
    assert (seen.measured_by, seen.expected, seen.missing, seen.unattributed) == (MeasuredBy.ENGINE, 1, (), ())
    assert events(made.look(8.0)) == (11, 7), "one read counts once"


def test_a_restart_in_the_step_counts_what_came_after_it_and_says_so() -> None:
    made = Watching(two(), definition(TOKENS))
    made.take("b", body(tokens=1000), 1.0)
    made.look(2.0)
    made.take("b", body(tokens=30), 5.0)
    seen = made.look(6.0)
    assert events(seen)[0] == 30
    assert seen.since_step.lossy


@pytest.mark.parametrize(("start", "counted"), [(WALL + 10, 40), (None, 0), (WALL - 20, 0), (WALL + 21, 0)])
def test_a_new_pod_counts_from_zero_only_where_its_start_is_known(start: float | None, counted: float) -> None:
    made = Watching(two(), definition(TOKENS))
    made.look(1.0)
    made.take("b", body(tokens=40, start=start), 20.0)
    assert events(made.look(21.0))[0] == counted


def test_a_pod_that_is_not_read_is_missing() -> None:
    made = Watching(two(), definition(TOKENS))
    assert made.look(1.0).missing == ("b",)
    made.take("b", body(), 2.0)
    assert made.look(3.0).missing == ()
    assert made.look(30.0).missing == ("b",), "its newest read is too old"


def test_a_pod_whose_counter_tells_no_number_is_missing_and_has_not_counted_nothing() -> None:
    made = Watching(two(), definition(TOKENS))
    made.take("b", body(tokens=10), 1.0)
    assert made.look(2.0).missing == ()
    for seconds, number in enumerate(("NaN", "-1", "1e300", "many"), 3):
        made.take("b", body(tokens=number), float(seconds))
        assert made.look(float(seconds)).missing == ("b",), number
    made.take("b", body(tokens=25), 8.0)
    seen = made.look(9.0)
    assert (seen.missing, events(seen)[0]) == ((), 15.0)


def test_an_unknown_or_other_revision_belongs_to_nobody() -> None:
    of = deployment(members=(member("a", 1, revision="1"), member("b", 2, revision="3"), member("c", 3)))
    seen = Watching(of, definition(TOKENS)).look(1.0)
    assert (seen.expected, seen.unattributed) == (0, ("b", "c"))


def test_requests_before_a_pod_is_warm_do_not_count() -> None:
    made = Watching(two(), definition(TOKENS, warm_up=WarmUp(seconds=10.0)))
    made.take("b", body(tokens=0, start=WALL + 1), 2.0)
    assert made.look(2.0).warming == ("b",)
    made.take("b", body(tokens=70), 11.0)
    assert made.look(11.0).warming == ("b",)
    made.take("b", body(tokens=100), 13.0)
    assert made.look(13.0).warming == ()
    made.take("b", body(tokens=105), 18.0)
    assert events(made.look(18.0))[0] == 5


def test_a_pod_that_is_not_ready_is_not_warm() -> None:
    made = Watching(two(ready=Ready.FALSE), definition(TOKENS))
    made.take("b", body(), 1.0)
    assert made.look(2.0).warming == ("b",)


def test_a_warm_pod_that_fails_still_counts() -> None:
    made = Watching(two(ready=Ready.TRUE), definition(TOKENS))
    made.take("b", body(tokens=10), 1.0)
    made.look(1.0)
    made.of = two(ready=Ready.FALSE)
    made.store.set_deployments((made.of,), at(2))
    made.take("b", body(tokens=25), 6.0)
    assert events(made.look(6.0))[0] == 15


def test_histograms_are_counted_by_bucket() -> None:
    made = Watching(two(), definition(TTFT))
    made.take("b", body(counts=(1.0, 2.0, 3.0)), 1.0)
    made.look(1.0)
    made.take("b", body(counts=(2.0, 5.0, 7.0), total=3.0), 6.0)
    (cell,) = made.look(6.0).since_step.cells
    assert cell.histogram is not None
    assert cell.histogram.counts == (1.0, 3.0, 4.0)
    assert cell.histogram.sum == 2.0


def outcomes(**counts: int) -> bytes:
    """What the router counts for the workers at ports 8000 and 8001: ``a_success=3`` and so on."""
    ports = {"a": 8000, "b": 8001}
    name = "vllm_router_cb_outcomes_total"
    rows = [f"# TYPE {name} counter"]
    for key, number in counts.items():
        worker, outcome = key.split("_")
        rows.append(f'{name}{{worker="http://10.0.0.1:{ports[worker]}",outcome="{outcome}"}} {number}')
    return ("\n".join(rows) + "\n").encode()


def split() -> Deployment:
    of = routed("a", "b")
    role = of.roles[0]
    members = (member("a", 8000, revision="1"), member("b", 8001, revision="2"))
    replicas = tuple(Replica(ordinal=n, members=(each,)) for n, each in enumerate(members))
    return Deployment(key=of.key, uid=of.uid, roles=(Role(name=role.name, engine="vllm", replicas=replicas),), router=of.router)  # fmt: skip


def test_the_router_measures_both_revisions_by_worker() -> None:
    made = Watching(split(), definition(OUTCOMES))
    for name in ("a", "b"):
        made.take(name, body(), 1.0)
    made.take("router", outcomes(a_success=10, b_success=10, b_failure=1), 1.0)
    made.look(2.0)
    made.take("router", outcomes(a_success=30, b_success=19, b_failure=4), 6.0)
    seen = made.look(7.0)
    assert seen.measured_by is MeasuredBy.ROUTER
    assert events(seen) == (3, 0)
    assert math.fsum(cell.total for cell in seen.since_step.cells) == 12
    assert (seen.missing, seen.unavailable) == ((), "")
    assert made.look(40.0).missing == ("b",), "a router that is not read measures nobody"


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (NativeMetric(kind=NativeKind.RATE, signal="router-request-errors"), "vllm_router does not tell router-request-errors"),
        (NativeMetric(kind=NativeKind.RATE, signal="prompt-tokens", measured_by=MeasuredBy.ROUTER), "no router here measures"),
        (NativeMetric(kind=NativeKind.RATE, signal="router-worker-requests", measured_by=MeasuredBy.ENGINE), "is the router's"),
        (NativeMetric(kind=NativeKind.RATE, signal="evicted-tokens"), "vllm does not tell evicted-tokens"),
        (NativeMetric(kind=NativeKind.RATE, signal="requests-finished", where=(("reason", "bad"),)), "no Pod exports a series"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_unavailable_and_never_zero(measure: NativeMetric, words: str) -> None:
    made = Watching(split(), definition(measure))
    for name in ("a", "b"):
        made.take(name, body(), 1.0)
    made.take("router", outcomes(a_success=1), 1.0)
    assert words in made.look(2.0).unavailable


def test_without_a_router_its_signals_are_unavailable() -> None:
    seen = Watching(two(), definition(OUTCOMES)).look(1.0)
    assert (seen.unavailable, seen.missing) == ("no router is there to tell router-worker-outcomes", ())


def test_comparisons_know_what_each_revision_was_asked() -> None:
    def asked(queries: int, hits: int) -> str:
        rows = {"queries": queries, "hits": hits}
        names = {name: f"vllm:prefix_cache_{name}_total" for name in rows}
        return "".join(f'# TYPE {names[n]} counter\n{names[n]}{{engine="0"}} {number}\n' for n, number in rows.items())

    made = Watching(two(), definition(NativeMetric(**(_fields(TTFT) | {"relative": Relative()}))))
    for name in ("a", "b"):
        made.take(name, body(more=asked(0, 0)), 1.0)
    made.look(1.0)
    made.take("a", body(more=asked(100, 90)), 6.0)
    made.take("b", body(more=asked(200, 20)), 6.0)
    seen = made.look(6.0)
    assert seen.mix is not None
    assert seen.stable is not None
    assert seen.stable.mix is not None
    assert (seen.mix.hit_rate, seen.stable.mix.hit_rate) == (0.1, 0.9)
    assert seen.mix.prompt_tokens is None


@pytest.mark.parametrize("how", ["its Service selects it no more", "terminating", "gone"])
def test_what_pods_counted_that_are_there_no_more_is_no_pass(how: str) -> None:
    """Where a controller says that the step serves, the Pods may be gone all the same."""
    told = definition(TOKENS)
    made = Watching(two(), told)
    gate = told.steps[0].analysis
    assert gate is not None
    made.native.endpoints = lambda _: {"1": {"uid-a"}, "2": {"uid-b"}}
    for seconds, tokens in ((1.0, 1), (6.0, 500)):
        for name in "ab":
            made.take(name, body(tokens=tokens), seconds)
        seen = made.look(seconds)
    assert judge_sample(gate, [seen], (), WALL, WALL + 6).verdict is Verdict.PASSED
    if how == "terminating":
        made.store.set_deployments((two(terminating=True),), at(7.0))
    elif how == "gone":
        made.store.set_deployments((deployment(members=(member("a", 8000, revision="1"),)),), at(7.0))
    else:
        made.native.endpoints = lambda _: {"1": {"uid-a", "uid-b"}, "2": set()}
    judged = judge_sample(gate, [made.look(8.0)], (), WALL, WALL + 8)
    assert (judged.verdict, judged.results[0].reason) == (Verdict.INCONCLUSIVE, Reason.MISSING_PODS)


def test_a_router_that_goes_and_comes_back_does_not_make_one_request_count_twice() -> None:
    """Engine and router count the same requests: they are never added up, and nothing is counted again by the other."""
    measure = NativeMetric(kind=NativeKind.QUANTILE, signal="time-to-first-token", quantile=0.5)
    made = Watching(split(), definition(measure))
    gate = made.told.steps[0].analysis
    assert gate is not None
    part, sides = Part(what="m", canary=True), made.native.sides(made.told)
    seen = []
    for seconds, by, total in ((1, "engine", 3), (6, "engine", 8), (11, "router", 2), (16, "router", 4), (21, "engine", 20), (26, "engine", 21)):  # fmt: skip
        made.step.measured(part, by, WALL + seconds)
        counted = Counted(events=float(total))
        made.step.add(part, by, "b", counted, counts=True, from_zero=False)
        seen.append(math.fsum(cell.events for cell in made.step.whole(part, WALL + seconds).cells))
    assert seen == [0, 5, 0, 2, 0, 1]
    without = msgspec.structs.replace(made.of, router=None)
    for of, by in ((made.of, MeasuredBy.ROUTER), (without, MeasuredBy.ENGINE), (made.of, MeasuredBy.ROUTER)):
        made.store.set_deployments((of,), at(30.0))
        made.take("b", body(), 30.0) if by is MeasuredBy.ENGINE else None
        sides = made.native.sides(made.told)
        made.native.look(sides, gate, made.step, at(30.0))
        (told,) = made.native.observe(sides, gate, made.step, at(30.0))
        assert told.since_step.start == WALL + 30.0


def _fields(of: NativeMetric) -> dict[str, Any]:
    return {name: getattr(of, name) for name in of.__struct_fields__}


def test_requests_may_cross_revisions_between_prefill_and_decode() -> None:
    def role(kind: RoleKind, first: int) -> Role:
        members = (member(f"{kind}-a", first, revision="1"), member(f"{kind}-b", first + 1, revision="2"))
        return Role(
            name=str(kind), kind=kind, engine="vllm", replicas=tuple(Replica(members=(each,)) for each in members)
        )

    of = Deployment(key=KEY, uid="u", roles=(role(RoleKind.PREFILL, 1), role(RoleKind.DECODE, 5)))
    assert Watching(of, definition(TOKENS)).look(1.0).mixed_pairing
    assert not Watching(two(), definition(TOKENS)).look(1.0).mixed_pairing


def test_a_router_canary_counts_its_own_pods() -> None:
    of = split()
    assert of.router is not None
    routers = (member("old", 9000, revision="1"), member("new", 9001, revision="2"))
    told = Deployment(key=of.key, uid=of.uid, roles=of.roles, router=type(of.router)(name="router", software="vllm_router", members=routers))  # fmt: skip
    made = Watching(told, definition(NativeMetric(kind=NativeKind.RATE, signal="router-worker-outcomes"), "router"))
    for name in ("old", "new"):
        made.take(name, outcomes(a_success=5), 1.0)
    made.look(1.0)
    made.take("old", outcomes(a_success=6), 6.0)
    made.take("new", outcomes(a_success=9), 6.0)
    seen = made.look(6.0)
    assert (events(seen), seen.expected, seen.measured_by) == ((4, 1), 1, MeasuredBy.ROUTER)


def test_a_stable_side_that_is_gone_is_kept_from_the_step_before() -> None:
    """Edge 12: at the last step stable may have no Pods."""
    told = definition(NativeMetric(**(_fields(TTFT) | {"relative": Relative()})))
    made = Watching(two(), told)
    gate = told.steps[0].analysis
    assert gate is not None
    for name in ("a", "b"):
        made.take(name, body(), 1.0)
    made.look(1.0)
    for name in ("a", "b"):
        made.take(name, body(counts=(11.0, 22.0, 33.0)), 6.0)
    first = made.look(6.0)
    kept = made.native.keep(made.native.sides(told), gate, made.step, at(6.0))
    assert first.stable is not None
    assert first.stable.before is None
    alone = deployment(members=(member("b", 8001, revision="2"),))
    made.store.set_deployments((alone,), at(7.0))
    sides, step = made.native.sides(told), Gathering("p2", WALL + 7.0)
    (without,) = made.native.observe(sides, gate, step, at(8.0))
    assert without.stable is None
    (seen,) = made.native.observe(sides, gate, step, at(8.0), kept)
    assert seen.stable is not None
    assert (seen.stable.kind, seen.stable.window) == (BaselineKind.FROZEN, first.stable.window)
    made.store.set_deployments((two(),), at(9.0))
    (again,) = made.native.observe(made.native.sides(told), gate, step, at(9.0), kept)
    assert again.stable is not None
    assert (again.stable.kind, again.stable.before) == (BaselineKind.LIVE, first.stable.window)
    other = {"m": msgspec.structs.replace(kept["m"], stable="0")}
    (refused,) = made.native.observe(sides, gate, step, at(9.0), other)
    assert refused.stable is None, "another stable revision's window is no baseline"


def test_programs_that_measure_otherwise_are_incomparable() -> None:
    """Report 50: one name, two meanings. The router measures both with one code and stays comparable."""
    measure = NativeMetric(**(_fields(TTFT) | {"relative": Relative()}))
    plain = two()
    (role,) = plain.roles
    (first, second) = role.replicas
    mixed = (
        Role(name="old", engine="vllm", replicas=(first,)),
        Role(name="new", engine="sglang", replicas=(second,)),
    )
    of = Deployment(key=plain.key, uid=plain.uid, roles=mixed)
    assert Watching(plain, definition(measure)).look(1.0).incomparable == ""
    told = Watching(of, definition(measure)).look(1.0).incomparable
    assert "sglang's" in told
    assert "vllm's" in told
    assert Watching(of, definition(TTFT)).look(1.0).incomparable == "", "nothing is compared"


def test_the_share_of_the_requests_is_counted_whether_warm_or_not_and_aborts_are_told_apart() -> None:
    made = Watching(two(), definition(TTFT, warm_up=WarmUp(seconds=1000.0)))

    def read(done: int, aborted: int) -> str:
        rows = {"stop": done, "abort": aborted}
        lines = (f'vllm:request_success_total{{engine="0",finished_reason="{name}"}} {n}\n' for name, n in rows.items())
        return "# TYPE vllm:request_success counter\n" + "".join(lines)

    for name in ("a", "b"):
        made.take(name, read(0, 0).encode(), 1.0)
    made.look(1.0)
    assert made.native.share(made.step, at(1.0)) is None
    made.take("a", read(90, 0).encode(), 6.0)
    made.take("b", read(6, 4).encode(), 6.0)
    seen = made.look(6.0)
    assert made.native.share(made.step, at(6.0)) == 0.1
    assert seen.since_step.aborted == 4
    assert seen.warming == ("b",)


def test_no_deployment_has_no_pods() -> None:
    made = Watching(two(), definition(TOKENS))
    made.native = NativeSource(store(), 12.0)
    assert made.native.sides(made.told).canary == ()
