"""Ready counts, quota, flavors, role summary, phase and its message, endpoint."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.platform_facts import RouterContract, RouterObjectsFact, WeightsFact, WorkloadFact
from router_contract.readings import FailureKind
from router_contract.targets import Address, Ready
from tests.judge.build import (
    OTHER,
    STATIC,
    ago,
    deployment,
    evidence,
    facts,
    inputs,
    kept,
    lost,
    member,
    record,
    refused,
    replica,
    role,
    router,
    row,
    run,
    view,
)

UP = facts(router_objects=RouterObjectsFact(ready=1))
DOWN = facts(router_objects=RouterObjectsFact(ready=0))


def of(*states, kind="Server", name="serve", start="a", **changes):
    places = tuple(replica(member(chr(ord(start) + n), ready=state), ordinal=n) for n, state in enumerate(states))
    made = role(*places, name=name, kind=kind, **({"desired": len(states)} | changes))
    return made if places else msgspec.structs.replace(made, replicas=())


T, F, U = Ready.TRUE, Ready.FALSE, Ready.UNKNOWN


@pytest.mark.parametrize(
    ("states", "ready"),
    [((T,), 1), ((T, F), 1), ((F,), 0), ((T, U), None), ((), 0)],
)
def test_ready_counts_replicas_and_is_null_while_one_is_not_known(states, ready):
    assert run(inputs(deployment(of(*states)))).roles[0].ready == ready


def test_a_replica_of_several_pods_is_ready_only_whole():
    def four(last):
        def pair(x, y, ready):
            return (member(x, declared_total=2), member(y, declared_total=2, seat=1, ready=ready))

        return deployment(role(replica(*pair("a", "b", T)), replica(*pair("c", "d", last), ordinal=1), size=2))

    judged = run(inputs(four(F)))
    assert (judged.roles[0].ready, judged.roles[0].desired) == (1, 2)
    assert run(inputs(four(T))).roles[0].ready == 2


def test_a_short_replica_is_not_ready():
    assert run(inputs(deployment(role(replica(member("a", declared_total=2)))))).roles[0].ready == 0


def test_a_failed_list_gives_no_count():
    judged = run(inputs(msgspec.structs.replace(deployment(), complete=False)))
    assert (judged.roles[0].ready, judged.roles[0].endpoints.eligible) == (None, None)


@pytest.mark.parametrize(
    ("seen", "ready"),
    [
        pytest.param(evidence(), 1, id="answers"),
        pytest.param(refused(), 0, id="a refused engine is not ready"),
        pytest.param(
            evidence(answered_at=ago(40), failed_at=ago(1), failure=FailureKind.TIMEOUT), None, id="saturated or hung"
        ),
    ],
)
def test_ready_of_static_targets(seen, ready):
    target = deployment(role(replica(member("a", ready=U))))
    assert run(inputs(target, facts=STATIC, members=(seen,)), kept()).roles[0].ready == ready


class TestQuotaAndFlavors:
    def of(self, *workloads):
        return run(inputs(facts=facts(workloads=workloads))).roles[0]

    def test_an_observed_zero_is_a_number(self):
        assert self.of().quota_reserved == 0

    def test_an_unread_list_is_nothing(self):
        assert run().roles[0].quota_reserved is None
        assert run().roles[0].assigned_flavors is None

    def test_counts_reservations_of_this_role(self):
        found = self.of(
            WorkloadFact(role="serve", reserved=True),
            WorkloadFact(role="serve"),
            WorkloadFact(role="other", reserved=True),
        )
        assert found.quota_reserved == 1

    def test_flavors_are_sorted_and_unique_and_absent_without_accelerator_credits(self):
        found = self.of(
            WorkloadFact(role="serve", reserved=True, flavors=("h100",)),
            WorkloadFact(role="serve", reserved=True, flavors=("a100", "h100")),
        )
        assert found.assigned_flavors == ("a100", "h100")
        assert self.of(WorkloadFact(role="serve", reserved=True)).assigned_flavors is None


def summary(*roles, given=None, with_router=False, views=()):
    return run(inputs(deployment(*roles, with_router=with_router), facts=given or facts(), views=views)).role_summary


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(lambda: summary(of(T, T), given=UP, with_router=True), "1R2S", id="router and servers"),
        pytest.param(lambda: summary(of(T, T)), "2S", id="no router, no R"),
        pytest.param(lambda: summary(of(F)), "0S", id="a declared kind with nothing ready shows zero"),
        pytest.param(
            lambda: summary(
                of(T, kind="Decode", name="d", start="c"),
                of(T, kind="Prefill", name="p", start="b"),
                of(T, kind="Encode", name="e"),
                given=UP,
                with_router=True,
            ),
            "1R1E1P1D",
            id="order R S E P D whatever the roles' order",
        ),
        pytest.param(lambda: summary(of(T, name="x"), of(T, T, name="y", start="b")), "3S", id="same kind summed"),
        pytest.param(lambda: summary(of(U)), "?S", id="not known is not zero"),
        pytest.param(
            lambda: summary(of(T), with_router=router(members=())), "0R1S", id="no router Pod is an observed zero"
        ),
        pytest.param(lambda: summary(of(T), given=DOWN, with_router=True), "0R1S", id="router not ready"),
        pytest.param(lambda: summary(of(T, kind="Novel")), "", id="an unknown kind has no letter"),
    ],
)
def test_role_summary(found, expected):
    assert found() == expected


@pytest.mark.parametrize(
    ("target", "given", "phase", "message"),
    [
        pytest.param(deployment(of(T)), facts(), "Ready", "", id="all ready"),
        pytest.param(deployment(of(T, F)), facts(), "Degraded", "1 of 2 replicas are ready", id="some down"),
        pytest.param(deployment(of(T), with_router=True), UP, "Ready", "", id="router ready"),
        pytest.param(
            deployment(of(T), with_router=True),
            DOWN,
            "Degraded",
            "sglang-gateway has no ready replica",
            id="router down",
        ),
        pytest.param(
            deployment(of(T), with_router=True),
            facts(router_objects=None),
            "Degraded",
            "no router Pod exists",
            id="router not deployed",
        ),
        pytest.param(
            deployment(of(T), with_router=True),
            facts(),
            "Unknown",
            "the router's objects were not observed",
            id="router unread",
        ),
        pytest.param(
            deployment(of(F)),
            facts(workloads=(WorkloadFact(role="serve"),)),
            "Starting",
            "waiting for quota: serve",
            id="starting says quota",
        ),
        pytest.param(
            deployment(of(desired=1)),
            facts(workloads=(), weights=WeightsFact(found=False)),
            "Starting",
            "the referenced artifact does not exist",
            id="weights when there is no Pod",
        ),
        pytest.param(
            deployment(of(F)),
            facts(workloads=(WorkloadFact(role="serve"),), weights=WeightsFact(found=False)),
            "Starting",
            "waiting for quota: serve",
            id="quota when there is one",
        ),
        pytest.param(
            deployment(of(F)),
            facts(workloads=(WorkloadFact(role="serve"),), eviction_note="evicted: disk"),
            "Starting",
            "waiting for quota: serve; evicted: disk",
            id="eviction note",
        ),
        pytest.param(deployment(of(U)), facts(), "Unknown", "ready replicas are not known: serve", id="not known"),
        pytest.param(
            deployment(of(T, desired=None)),
            facts(),
            "Unknown",
            "how many replicas are wanted is not known",
            id="no desired",
        ),
        pytest.param(deployment(of(desired=0)), facts(), "Ready", "", id="parked"),
    ],
)
def test_phase(target, given, phase, message):
    judged = run(inputs(target, facts=given))
    assert (judged.phase.value, judged.phase_message) == (phase, message)


def test_degraded_is_decided_when_no_value_of_the_unknown_could_change_it():
    target = deployment(of(T, name="x"), of(F, name="z", start="b"), of(U, name="y", start="c"))
    judged = run(inputs(target))
    assert (judged.phase.value, judged.phase_message) == ("Degraded", "1 of 3 replicas are known to be ready")


def test_deleting_wins():
    assert run(inputs(msgspec.structs.replace(deployment(of(T)), deleting=True))).phase.value == "Deleting"


CONTRACT = RouterContract(name="sglang-gateway", endpoint="http://md-router.ns.svc:8081")


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        pytest.param(deployment(of(T)), facts(port=8000), "http://md.ns.svc:8000", id="without a router"),
        pytest.param(
            deployment(of(T, arguments=("--ssl-certfile", "c"))),
            facts(port=8000),
            "https://md.ns.svc:8000",
            id="certificate",
        ),
        pytest.param(
            deployment(of(T, arguments=("--ssl-cert-reqs", "2"))),
            facts(port=8000),
            "http://md.ns.svc:8000",
            id="other ssl",
        ),
        pytest.param(
            deployment(of(T, kind="Encode", name="e", arguments=("--ssl-keyfile", "k")), of(T, name="s", start="b")),
            facts(port=8000),
            "http://md.ns.svc:8000",
            id="first role that is not Encode",
        ),
        pytest.param(
            deployment(of(T), with_router=True),
            facts(DOWN, contract=CONTRACT),
            None,
            id="absent until the router is ready",
        ),
        pytest.param(
            deployment(of(T), with_router=True),
            facts(UP, contract=CONTRACT),
            "http://md-router.ns.svc:8081",
            id="router",
        ),
        pytest.param(deployment(of(T), with_router=True), UP, None, id="router ready and no contract read"),
        pytest.param(deployment(of(T)), facts(endpoint="http://x"), "http://x", id="stated by the platform"),
        pytest.param(deployment(of(T)), OTHER, None, id="not derivable elsewhere"),
        pytest.param(deployment(of(T)), facts(), None, id="port not known"),
    ],
)
def test_endpoint(target, given, expected):
    assert run(inputs(target, facts=given)).endpoint == expected


def test_desired_describes_the_spec_and_ready_the_running_replicas():
    judged = run(inputs(deployment(of(T, desired=3, arguments=("-tp", "4")))))
    found = judged.roles[0]
    assert (found.desired, found.ready, dict(found.parallelism.declared)) == (3, 1, {"tensorParallel": 4})


def test_unmanaged_is_known_only_where_somebody_renders_commands():
    assert run(inputs(deployment(of(T, command=("x",))))).roles[0].unmanaged is True
    assert run(inputs(deployment(of(T)))).roles[0].unmanaged is False
    assert run(inputs(deployment(of(T, command=("x",))), facts=OTHER)).roles[0].unmanaged is None


def test_a_take_over_role_counts_as_ready_when_its_process_started():
    judged = run(inputs(deployment(of(T, command=("x",))), members=()))
    assert judged.roles[0].ready == 1
    assert judged.roles[0].readiness.meaning.value == "ProcessStarted"
    assert judged.roles[0].endpoints.eligible is None


def test_static_router_in_the_summary():
    made = router(members=tuple(msgspec.structs.replace(item, ready=U) for item in router().members))
    target = deployment(role(replica(member("a", ready=U, api=Address(host="10.0.0.1", port=8000)))), with_router=made)
    assert run(inputs(target, facts=STATIC, views=(view(row()),))).role_summary == "1R1S"
    assert run(inputs(target, facts=STATIC, views=(lost(),)), kept(record())).role_summary == "?R1S"
