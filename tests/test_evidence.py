"""What judges are handed: filled only where somebody looked, and of the present life only."""

from __future__ import annotations

from observer import evidence
from observer.store import Store
from router_contract.judging import MemberEvidence, RankEvidence
from router_contract.probes import HealthAnswered, MemberProbe, ModelsListed, ProbeFailed
from router_contract.readings import FailureKind, ScrapeFailed
from router_contract.targets import Component, Deployment, Member
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
