"""What judges are handed: filled only where somebody looked, and of the present life only."""

from __future__ import annotations

from observer import evidence
from observer.store import Store
from router_contract.judging import MemberEvidence, RankEvidence
from router_contract.kv_streams import History, KvStreamSummary, StreamKey, StreamSource, StreamState
from router_contract.probes import HealthAnswered, MemberProbe, ModelsListed, ProbeFailed
from router_contract.readings import FailureKind, ScrapeFailed
from router_contract.targets import Component, Deployment, KvEventSource, Member
from tests.fleets import KEY, at, body, deployment, key, member, routed, store, take, target

ONE = deployment("a")


def probe(**found: object) -> MemberProbe:
    return MemberProbe(**({"deployment": KEY, "uid": "uid-a", "member": "a", "software": "vllm"} | found))


def seen(
    kept: Store, of: Deployment, before: MemberEvidence | None = None, told: MemberProbe | None = None, **more: object
) -> MemberEvidence:
    who = next(of.roles[0].members())
    return evidence.member_evidence(who, kept.record(key("a", 8000)), before, told, **({"model": None} | more))


def filled(*reads: tuple[float, bytes], of: Deployment = ONE) -> Store:
    kept = store()
    kept.set_deployments((of,), at(0))
    for moment, data in reads:
        take(kept, of, "a", data, moment)
    return kept


def test_nobody_looked() -> None:
    who = member("a", started_at=5.0)
    assert evidence.member_evidence(who, None, None, None, None) == MemberEvidence(uid="uid-a", started_at=5.0)
    found = seen(filled(), ONE)
    assert (found.answered_at, found.incarnation, found.ranks, found.families, found.attempt) == (
        None,
        "",
        (),
        None,
        None,
    )
    assert (found.health_at, found.listed_model, found.first_seen) == (None, None, at(0))


def test_a_read_answers_and_tells_families_and_ranks() -> None:
    found = seen(filled((1.0, body(running=3)), (6.0, body(running=2, tokens=150))), ONE)
    assert (found.answered_at, found.failed_at) == (at(6.0), None)
    assert "vllm:num_requests_running" in (found.families or ())
    (rank,) = found.ranks
    assert (rank.rank, rank.work, rank.moved_at, rank.watched_since) == ("0", 2.0, at(6.0), at(1.0))


def test_a_failure_counts_until_the_next_good_read() -> None:
    kept = filled((1.0, body()))
    kept.on_failure(target(ONE, "a"), failure(5.0))
    found = seen(kept, ONE)
    assert (found.answered_at, found.failed_at, found.failure, found.failure_detail) == (
        at(1.0),
        at(5.0),
        FailureKind.REFUSED,
        "gone",
    )
    take(kept, ONE, "a", body(), 10.0)
    found = seen(kept, ONE)
    assert (found.answered_at, found.failed_at, found.failure, found.failure_detail) == (at(10.0), None, None, "")


def failure(seconds: float, kind: FailureKind = FailureKind.REFUSED) -> ScrapeFailed:
    return ScrapeFailed(target=target(ONE, "a").key, at=at(seconds), kind=kind, detail="gone")


def test_since_when_reads_fail_in_one_way() -> None:
    kept, found, since = filled((1.0, body())), None, []
    for seconds, kind in ((5.0, "Refused"), (10.0, "Refused"), (15.0, "Timeout"), (20.0, "Timeout")):
        kept.on_failure(target(ONE, "a"), failure(seconds, FailureKind(kind)))
        found = seen(kept, ONE, found)
        since.append(found.failing_since)
    assert since == [at(5.0), at(5.0), at(15.0), at(15.0)]
    take(kept, ONE, "a", body(), 25.0)
    kept.on_failure(target(ONE, "a"), failure(30.0, FailureKind.TIMEOUT))
    assert seen(kept, ONE, found).failing_since == at(30.0)
    take(kept, ONE, "a", body(), 35.0)
    assert seen(kept, ONE, found).failing_since is None


def test_health_and_models_as_they_were_answered() -> None:
    kept = filled((1.0, body()))
    good = probe(
        health=HealthAnswered(at=at(2.0), healthy=True, status=200), models=ModelsListed(at=at(2.0), models=("m",))
    )
    found = seen(kept, ONE, told=good, model="m")
    assert (found.health_at, found.unhealthy_at, found.listed_model, found.listed_at) == (at(2.0), None, True, at(2.0))
    assert seen(kept, ONE, told=good, model="other").listed_model is False
    assert seen(kept, ONE, told=good).listed_model is True
    bad = probe(
        health=HealthAnswered(at=at(3.0), healthy=False, status=503), models=ModelsListed(at=at(3.0), models=())
    )
    found = seen(kept, ONE, told=bad)
    assert (found.health_at, found.unhealthy_at, found.listed_model) == (None, at(3.0), False)
    silent = probe(health_failed=ProbeFailed(at=at(4.0), path="/health", kind=FailureKind.TIMEOUT, detail="slow"))
    found = seen(kept, ONE, told=silent)
    assert (found.health_at, found.unhealthy_at, found.listed_model) == (None, None, None)


def chain_of_passes(kept: Store, of: Deployment, *reads: tuple[float, bytes]) -> list[RankEvidence]:
    """One pass after each read; the only rank of each."""
    before: MemberEvidence | None = None
    ranks: list[RankEvidence] = []
    for moment, data in reads:
        take(kept, of, "a", data, moment)
        before = seen(kept, of, before)
        ranks += before.ranks
    return ranks


def test_a_load_gauge_that_was_not_read_is_not_zero() -> None:
    def work(data: bytes) -> float | None:
        return seen(filled((1.0, data)), ONE).ranks[0].work

    waiting = '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} '
    assert work(body(running=2, more=waiting + "3\n")) == 5.0
    assert work(body(running=0, more=waiting + "0\n")) == 0.0
    assert work(body(running=2)) == 2.0
    assert work(body(running=0)) is None
    assert work(body(running="NaN", more=waiting + "0\n")) is None
    assert work(body(running="NaN", more=waiting + "1\n")) == 1.0


def test_since_when_there_is_work_and_no_progress() -> None:
    ranks = chain_of_passes(
        filled(),
        ONE,
        (0.0, body(running=0, tokens=5)),
        (5.0, body(running=1, tokens=6)),
        (10.0, body(running=4, tokens=6)),
        (15.0, body(running=0, tokens=6)),
        (20.0, body(running=1, tokens=6)),
    )
    assert [rank.work_since for rank in ranks] == [None, at(5.0), at(5.0), None, at(20.0)]
    assert [rank.moved_at for rank in ranks] == [None, at(5.0), at(5.0), at(5.0), at(5.0)]
    assert {rank.watched_since for rank in ranks} == {at(0.0)}


def test_another_process_is_watched_anew() -> None:
    kept = filled()
    first, second, third = chain_of_passes(
        kept,
        ONE,
        (0.0, body(running=1, tokens=50, start=100.0)),
        (5.0, body(running=1, tokens=60, start=100.0)),
        (10.0, body(running=1, tokens=0, start=900.0)),
    )
    assert (first.work_since, second.work_since, third.work_since) == (at(0.0), at(0.0), at(10.0))
    assert third.watched_since == at(10.0)
    # The counters moved in the life before; nothing is known of work that this one has done.
    assert (second.moved_at, third.moved_at) == (at(5.0), None)


def test_lives_are_told_apart_by_the_best_that_is_known() -> None:
    contained = member("a", restarts=2, started_at=40.0)
    started = filled((0.0, body(start=100.4)))
    bare = filled((0.0, body(tokens=9)), (5.0, body(tokens=1)))
    records = [each.record(key("a", 8000)) for each in (started, bare, filled())]
    assert [evidence.incarnation(member("a"), record) for record in records] == ["process 100", "resets 1", ""]
    assert evidence.incarnation(contained, records[0]) == "container 2/40.0"


def test_a_lower_counter_of_a_known_process_is_no_other_life() -> None:
    kept = filled((0.0, body(tokens=9, start=100.0)), (5.0, body(tokens=1, start=100.0)))
    assert seen(kept, ONE).incarnation == "process 100"


def test_a_read_of_the_life_before_proves_nothing_of_the_present_one() -> None:
    def life(restarts: int) -> Deployment:
        return deployment(members=(member("a", restarts=restarts),))

    kept = filled((0.0, body()), of=life(0))
    assert seen(kept, life(0)).answered_at == at(0.0)
    kept.set_deployments((life(1),), at(1))
    found = seen(kept, life(1))
    assert (found.answered_at, found.ranks, found.attempt) == (None, (), 2)
    take(kept, life(1), "a", body(), 5.0)
    assert seen(kept, life(1)).answered_at == at(5.0)


def test_circuits_and_endpoints_of_routers_are_of_their_last_read() -> None:
    assert evidence.circuits(None) is None
    assert evidence.endpoint_series(None) is None
    of = routed("a", routers=("r",))
    kept = store()
    kept.set_deployments((of,), at(0))
    record = kept.record(key("r", 9000, Component.ROUTER))
    assert (evidence.circuits(record), evidence.endpoint_series(record)) == (None, None)
    take(kept, of, "r", b"# TYPE vllm_router_requests_total counter\nvllm_router_requests_total 1\n", 3.0)
    found = evidence.circuits(kept.record(key("r", 9000, Component.ROUTER)))
    assert found is not None
    assert (found.at, found.states) == (at(3.0), ())
    endpoints = evidence.endpoint_series(kept.record(key("r", 9000, Component.ROUTER)))
    assert endpoints is not None
    assert (endpoints.at, endpoints.endpoints, endpoints.ready) == (at(3.0), (), None)


def test_freshness_says_why_the_newest_read_failed() -> None:
    of = deployment("a", "b")
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(), 1.0)
    records = [(each.target.member, each) for each in kept.records()]
    ages = {each.name: (each.age, each.detail) for each in evidence.freshness(records, at(4.0))}
    assert ages == {"a": (3.0, ""), "b": (None, "")}
    kept.on_failure(target(of, "a"), failure(5.0))
    (first, _) = evidence.freshness([(each.target.member, each) for each in kept.records()], at(6.0))
    assert (first.age, first.detail) == (5.0, "gone")


def test_members_without_series_have_no_ranks() -> None:
    of = deployment("a", software="mystery")
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(), 1.0)
    who: Member = next(of.roles[0].members())
    found = evidence.member_evidence(who, kept.record(key("a", 8000)), None, None, None)
    assert (found.answered_at, found.ranks, found.families) == (at(1.0), (), None)


WAITING = '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} '


def drained(*reads: tuple[float, bytes]) -> list[tuple[tuple[str, float | None], ...]]:
    """The gauges of each of the last reads, one pass after each read and two after the last."""
    kept, found = filled(), None
    for moment, data in reads:
        take(kept, ONE, "a", data, moment)
        found = seen(kept, ONE, found)
    assert found is not None
    assert seen(kept, ONE, found).drain == found.drain
    return [read.values for read in found.drain]


def test_the_load_gauges_of_the_last_two_reads_are_kept() -> None:
    bodies = [body(running=n, more=f"{WAITING}{n + 1}\n") for n in range(3)]
    found = drained(*((float(5 * n), data) for n, data in enumerate(bodies)))
    assert [dict(values) for values in found] == [
        {"requests-running": 1.0, "requests-waiting": 2.0},
        {"requests-running": 2.0, "requests-waiting": 3.0},
    ]


def test_a_load_gauge_that_is_absent_or_no_number_is_not_zero_for_the_drain_answer() -> None:
    (values,) = drained((1.0, body(running=0)))
    assert dict(values) == {"requests-running": 0.0, "requests-waiting": None}
    (values,) = drained((1.0, body(running="NaN", more=f"{WAITING}0\n")))
    assert dict(values) == {"requests-running": None, "requests-waiting": 0.0}


def test_a_failed_read_and_another_life_stand_between_two_drain_reads() -> None:
    kept = filled((0.0, body(start=100.0)))
    first = seen(kept, ONE)
    kept.on_failure(target(ONE, "a"), failure(5.0))
    second = seen(kept, ONE, first)
    assert [read.error for read in second.drain] == ["", "gone"]
    take(kept, ONE, "a", body(start=900.0), 10.0)
    third = seen(kept, ONE, second)
    take(kept, ONE, "a", body(start=900.0), 15.0)
    fourth = seen(kept, ONE, third)
    assert [read.error for read in third.drain] == ["gone", ""]
    assert third.drain[-1].identity != first.drain[-1].identity
    assert len({read.identity for read in fourth.drain}) == 1


def test_a_program_without_a_table_has_no_load_gauges() -> None:
    of = deployment("a", software="mystery")
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(), 1.0)
    (read,) = evidence.member_evidence(next(of.roles[0].members()), kept.record(key("a", 8000)), None, None, None).drain
    assert (read.values, read.error) == ((), "no table tells its load gauges")


def test_starts_are_counted_once_for_each_read_and_only_where_no_platform_counts_them() -> None:
    kept, found = filled((0.0, body(start=100.0))), None
    counts = []
    for step in range(1, 5):
        found = seen(kept, ONE, found)
        kept.on_failure(target(ONE, "a"), failure(10.0 * step))
        for _ in range(3):
            found = seen(kept, ONE, found)
        take(kept, ONE, "a", body(start=100.0 + 10 * step), 10.0 * step + 5)
        found = seen(kept, ONE, found)
        assert found.starts is not None
        counts.append(len(found.starts.at))
    assert counts == [1, 2, 3, 4]
    told = deployment(members=(member("a", restarts=3),))
    assert seen(filled((0.0, body()), of=told), told).starts is None


def test_counters_that_fell_are_a_start_where_no_start_time_is_told() -> None:
    kept = filled((0.0, body(tokens=9)))
    first = seen(kept, ONE)
    take(kept, ONE, "a", body(tokens=2), 5.0)
    second = seen(kept, ONE, first)
    assert second.starts is not None
    assert second.starts.at == (at(5.0),)
    take(kept, ONE, "a", body(tokens=4), 10.0)
    third = seen(kept, ONE, second)
    assert third.starts is not None
    assert third.starts.at == (at(5.0),)


def test_a_start_up_has_a_budget_only_where_it_is_gated() -> None:
    for gated, budget in ((True, 1800.0), (False, None)):
        of = deployment(members=(member("a", readiness_gated=gated),))
        assert seen(filled((0.0, body()), of=of), of).startup_budget == budget


def stream(uid: str, state: StreamState, seconds: float = 0.0, rank: int = 0) -> KvStreamSummary:
    source = StreamSource(
        key=StreamKey(KEY, uid, rank), source=KvEventSource(endpoint="tcp://10.0.0.1:5557", rank=rank)
    )
    return KvStreamSummary(source=source, state=state, since=at(seconds), history=History.COMPLETE)


def test_which_publishers_can_be_dialled() -> None:
    streams = (
        stream("live", StreamState.LIVE),
        stream("lost", StreamState.UNREPAIRED),
        stream("late", StreamState.CONNECTING, 5.0),
        stream("new", StreamState.CONNECTING, 95.0),
        stream("broken", StreamState.BROKEN),
        stream("none", StreamState.DETACHED),
        stream("half", StreamState.LIVE),
        stream("half", StreamState.CONNECTING, 5.0, rank=1),
        stream("open", StreamState.LIVE),
        stream("open", StreamState.CONNECTING, 95.0, rank=1),
    )
    assert evidence.events_dialable(streams, at(100.0)) == {"live": True, "lost": True, "late": False, "half": False}


def test_since_when_routers_count_requests() -> None:
    bare = MemberEvidence(uid="uid-a")
    assert evidence.with_told(bare, None, {}, {}, at(1)) is bare
    first = evidence.with_told(bare, None, {"uid-a": 2.0}, {"uid-a": True}, at(1))
    assert (first.router_inflight, first.inflight_since, first.events_dialable) == (2.0, at(1), True)
    second = evidence.with_told(bare, first, {"uid-a": 1.0}, {}, at(6))
    assert (second.router_inflight, second.inflight_since, second.events_dialable) == (1.0, at(1), None)
    third = evidence.with_told(second, second, {"uid-a": 0.0}, {}, at(11))
    assert (third.router_inflight, third.inflight_since) == (0.0, None)
    last = evidence.with_told(third, third, {}, {}, at(12))
    assert (last.router_inflight, last.inflight_since) == (None, None)


CIRCUITS = (
    '# TYPE vllm_router_cb_state gauge\nvllm_router_cb_state{worker="http://h:1"} 1\n'
    '# TYPE vllm_router_cb_outcomes_total counter\nvllm_router_cb_outcomes_total{worker="http://h:1",outcome="failure"} 3\n'
)


def circuits_of(text: str) -> tuple[tuple[tuple[str, float], ...], bool]:
    of = routed("a", routers=("r",))
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "r", text.encode(), 3.0)
    found = evidence.circuits(kept.record(key("r", 9000, Component.ROUTER)))
    assert found is not None
    return found.states, found.whole


def test_circuits_that_cannot_be_read_are_not_circuits_that_are_not_exported() -> None:
    assert circuits_of(CIRCUITS) == ((("http://h:1", 1.0),), True)
    assert circuits_of("# TYPE vllm_router_requests_total counter\nvllm_router_requests_total 1\n") == ((), True)
    cut = CIRCUITS[: CIRCUITS.index("} 1")]
    assert circuits_of("# TYPE vllm_router_requests_total counter\nvllm_router_requests_total 1\n" + cut) == ((), False)
    assert circuits_of(CIRCUITS.replace("} 1", "} one").replace("} 3", "} three")) == ((), False)
    assert circuits_of(CIRCUITS.replace("} 1", "} NaN")) == ((), False)


def test_work_of_a_rank_is_not_known_while_a_part_of_it_is_not() -> None:
    def work(running: str, waiting: str) -> float | None:
        second = f'vllm:num_requests_running{{engine="0",model_name="b"}} {running}\n'
        found = seen(
            filled(
                (
                    1.0,
                    body(running=0, more=f"{WAITING}{waiting}\n").replace(
                        b"# TYPE vllm:prompt", second.encode() + b"# TYPE vllm:prompt"
                    ),
                )
            ),
            ONE,
        )
        return {each.rank: each.work for each in found.ranks}["0"]

    assert work("0", "0") == 0.0
    assert work("NaN", "0") is None
    assert work("NaN", "2") == 2.0


def test_computed_tokens_are_of_a_rank_that_tells_them_all() -> None:
    source = '# TYPE vllm:prompt_tokens_by_source_total counter\nvllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} %s\n'
    generated = '# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine="0"} 5\n'

    def told(number: str, rank: int = 0) -> float | None:
        record = filled((1.0, body(more=source % number + generated))).record(key("a", 8000))
        assert record is not None
        return evidence.computed_tokens(record, rank)

    assert told("7") == 12.0
    assert told("NaN") is None
    assert told("7", rank=1) is None
