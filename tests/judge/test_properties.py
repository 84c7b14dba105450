"""Properties over generated deployments: Unknown adds nothing, no judge raises, same inputs give the same verdict.

A *reading* is what one look at one thing gave: one member's evidence as a whole, a Pod's Ready, one router Pod's view,
the selection of one row, one kind of object, the proof, the list, one target's freshness. Replacing any of them by
Unknown, with the stored state fixed, must never make an answer better. What a file declares is no reading, nor is the
moment at which discovery first listed a member.
"""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router_contract.judging import (
    DeploymentInputs,
    GroupRecord,
    Judged,
    MemberEvidence,
    MembershipProof,
    ProofMember,
    Stored,
    TargetFreshness,
)
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_facts import (
    BindingFact,
    ContractMetrics,
    ContractRole,
    ElasticFact,
    OperatorStatus,
    PlatformFacts,
    PublisherFact,
    RolloutFact,
    RouterContract,
    RouterObjectsFact,
    WeightsFact,
    WorkloadFact,
)
from router_contract.readings import FailureKind
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import GroupState, LegState, Retirement, ServingState
from router_contract.targets import Ready
from router_contract.verdicts import Provenance, Status
from tests.judge.build import (
    GPUSTACK,
    NOW,
    OTHER,
    POLICY,
    STATIC,
    ago,
    deployment,
    evidence,
    member,
    rank,
    replica,
    role,
    router,
    row,
    run,
    view,
)

UNSET = msgspec.UNSET
READY = st.sampled_from(list(Ready))
SECONDS = st.sampled_from([0.0, 2.0, 9.0, 11.0, 16.0, 70.0, 400.0])
FRESHNESS = st.tuples(st.none() | SECONDS, st.sampled_from(("", "r", "s")), st.none() | st.sampled_from(FailureKind))
INSTANTS = SECONDS.map(ago)
MAYBE_INSTANT = st.none() | INSTANTS
FAILURES = st.sampled_from([None, FailureKind.REFUSED, FailureKind.TIMEOUT, FailureKind.HTTP])


def observed(values):
    """An object of three values: not observed, observed absent, observed."""
    return st.sampled_from([UNSET, None]) | values


@st.composite
def members_of(draw, letters):
    total = draw(st.sampled_from([1, 1, 1, 2, None, 0]))
    made = []
    for index, uid in enumerate(letters):
        made.append(
            member(
                uid,
                ready=draw(READY),
                seat=draw(st.sampled_from([index, index, index, None, 5])),
                declared_total=total,
                serves=draw(st.sampled_from([True, True, True, False])) if index else True,
                terminating=draw(st.sampled_from([False, False, False, False, True])),
                readiness_gated=draw(st.booleans()),
                restarts=draw(st.sampled_from([None, 0, 1])),
                ports=draw(st.sampled_from([(), (8000, 8001)])),
            )
        )
    return tuple(made)


@st.composite
def roles_of(draw):
    layouts = draw(st.sampled_from([("a",), ("ab",), ("a", "b"), ("ab", "c"), ("a", "b", "c"), ()]))
    places = tuple(
        replica(
            *draw(members_of(letters)),
            ordinal=ordinal,
            replacing=draw(st.sampled_from([False, False, True, None])),
            retiring=draw(st.sampled_from([None, False, True])),
        )
        for ordinal, letters in enumerate(layouts)
    )
    made = role(
        *(places or (replica(),)),
        desired=draw(st.sampled_from([0, 1, 2, 3, None])),
        size=draw(st.sampled_from([1, 2])),
        kind=draw(st.sampled_from(["Server", "Encode", "Decode"])),
        arguments=draw(
            st.sampled_from([(), ("-tp", "2"), ("-dp", "2"), ("-dp", "x"), ("-dp", "2", "-dpe"), ("--port", "1")])
        ),
        command=draw(st.sampled_from([(), (), ("x",)])),
        elastic=draw(st.sampled_from([False, False, False, True])),
    )
    return made if places else msgspec.structs.replace(made, replicas=())


@st.composite
def seen_of(draw, uid):
    return evidence(
        uid,
        first_seen=draw(st.sampled_from([None, ago(500), ago(1)])),
        incarnation=draw(st.sampled_from(["1", "2", ""])),
        answered_at=draw(MAYBE_INSTANT),
        failed_at=draw(MAYBE_INSTANT),
        failure=draw(FAILURES),
        health_at=draw(MAYBE_INSTANT),
        listed_model=draw(st.sampled_from([None, True, True, False])),
        listed_at=draw(MAYBE_INSTANT),
        ranks=tuple(
            rank(
                name,
                work=draw(st.sampled_from([None, 0.0, 2.0])),
                moved_at=draw(MAYBE_INSTANT),
                work_since=draw(MAYBE_INSTANT),
                watched_since=draw(MAYBE_INSTANT),
            )
            for name in draw(st.sampled_from([(), ("0",), ("0", "1"), ("1",)]))
        ),
        attempt=draw(st.sampled_from([None, 1, 2])),
        families=draw(st.sampled_from([None, (), ("q",)])),
        events_dialable=draw(st.sampled_from([None, True, False])),
    )


ROWS = st.lists(
    st.builds(
        row,
        uid=st.sampled_from("abcz"),
        in_selection=st.sampled_from([True, True, False, None]),
        rank=st.sampled_from([None, 0, 1]),
        port=st.sampled_from([8000, 8000, 8001]),
        recent_dispatch=st.sampled_from([None, True, False]),
    ),
    max_size=4,
)


@st.composite
def views_of(draw, uids):
    found = []
    for uid in uids:
        kind = draw(st.sampled_from(["view", "view", "view", "failed", "none"]))
        if kind == "view":
            found.append(view(*draw(ROWS), uid=uid, read_at=draw(st.sampled_from([ago(2), ago(14), ago(16)]))))
        elif kind == "failed":
            found.append(ViewFailed(router=uid, pod_uid=uid, at=ago(1), kind="Timeout"))
    return tuple(found)


@st.composite
def facts_of(draw):
    base = draw(st.sampled_from([GPUSTACK, GPUSTACK, OTHER, STATIC]))
    managed = base.managed
    operator = OperatorStatus(
        read_at=NOW.wall - 5,
        observed_generation=draw(st.sampled_from([None, 6, 7])),
        conditions=(
            OperatorCondition(type="DomainRegistered", status="True", reason="Registered"),
            OperatorCondition(type="EndpointEligibility", status="Unknown", reason="Unsupported"),
        ),
    )
    contract = RouterContract(
        name="x",
        endpoint="http://x",
        metrics=ContractMetrics(port=draw(st.sampled_from([8000, 9999])), names=(("queued", "q"),)),
        roles=(
            ContractRole(
                name="serve",
                kind="Server",
                events_endpoint="tcp://x:1",
                selected=draw(st.sampled_from([None, ("a",), ("a", "b")])),
            ),
        ),
    )
    return msgspec.structs.replace(
        base,
        operator=draw(observed(st.just(operator))),
        cache=draw(st.sampled_from([UNSET, True, False])),
        binding=draw(observed(st.builds(BindingFact, name=st.just("b"), ready=st.booleans(), deleting=st.booleans()))),
        workloads=draw(
            st.just(UNSET)
            | st.lists(
                st.builds(
                    WorkloadFact,
                    role=st.just("serve"),
                    reserved=st.booleans(),
                    preempted=st.booleans(),
                    deactivated=st.booleans(),
                    flavors=st.sampled_from([(), ("x",)]),
                ),
                max_size=3,
            ).map(tuple)
        ),
        reserved_namespace=draw(st.sampled_from([UNSET, True, False])),
        weights=draw(
            observed(
                st.builds(
                    WeightsFact,
                    found=st.booleans(),
                    resolved=st.booleans(),
                    failed=st.booleans(),
                    pods_have_them=st.sampled_from([None, True, False]),
                )
            )
        ),
        router_objects=draw(observed(st.builds(RouterObjectsFact, ready=st.integers(0, 2)))) if managed else UNSET,
        rollout=draw(
            st.just(UNSET)
            | st.builds(RolloutFact, desired=st.integers(0, 3), accounted=st.integers(0, 3), current=st.integers(0, 3))
        ),
        publishers=draw(st.sampled_from([UNSET, (), (PublisherFact(role="serve", publishes=False),)]))
        if managed
        else UNSET,
        retirement=draw(
            observed(
                st.builds(
                    Retirement,
                    role_name=st.just("serve"),
                    replica_ordinal=st.integers(0, 2),
                    state=st.sampled_from(["Draining", "Aborted"]),
                )
            )
        )
        if managed
        else UNSET,
        elastic=draw(observed(st.builds(ElasticFact, refused=st.booleans(), retries_spent=st.booleans()))),
        contract=draw(observed(st.just(contract))),
        endpoint=draw(st.sampled_from([UNSET, None, "http://x"])),
    )


@st.composite
def records_of(draw):
    return tuple(
        GroupRecord(
            role="serve",
            ordinal=ordinal,
            generation=generation,
            state=draw(st.sampled_from(list(GroupState))),
            qualified_at=draw(st.sampled_from([None, 400_000.0])),
            revoked=draw(st.booleans()),
            listed=draw(st.booleans()),
            void=draw(st.booleans()),
            answered=draw(st.sampled_from([(), tuple(generation.split("/"))])),
            forwarded=draw(st.sampled_from([(), ("a|1|0",), ("a|1|0", "a|1|1", "b|1|1")])),
        )
        for generation, ordinal in draw(
            st.lists(st.sampled_from([("a", 0), ("a/b", 0), ("b", 1), ("c", 1), ("c", 2)]), unique=True)
        )
    )


@st.composite
def cases(draw):
    routers = draw(st.sampled_from([(), ("r",), ("r", "s")]))
    declared = router(*routers) if routers else False
    if routers:
        ready = draw(READY)
        declared = msgspec.structs.replace(
            declared, members=tuple(msgspec.structs.replace(item, ready=ready) for item in declared.members)
        )
    target = deployment(
        draw(roles_of()),
        with_router=declared,
        complete=draw(st.sampled_from([True, True, True, False])),
        model=draw(st.sampled_from([None, "m"])),
    )
    proof = draw(
        st.none()
        | st.builds(
            MembershipProof,
            at=INSTANTS,
            members=st.none()
            | st.lists(
                st.builds(ProofMember, uid=st.sampled_from("abc"), ready=READY, terminating=st.booleans()), max_size=3
            ).map(tuple),
        )
    )
    seen = tuple(draw(seen_of(each.uid)) for item in target.roles for each in item.members() if draw(st.integers(0, 4)))
    given_ = DeploymentInputs(
        deployment=target,
        facts=draw(facts_of()),
        members=seen,
        views=draw(views_of(routers)),
        proof=proof,
        freshness=tuple(
            TargetFreshness(name=str(index), age=each, uid=uid, failure=failure)
            for index, (each, uid, failure) in enumerate(draw(st.lists(FRESHNESS, max_size=3)))
        ),
    )
    if given_.facts.managed:
        # there the operator's record is the one place a retirement is read from
        given_ = _without_flags(given_)
    return given_, Stored(groups=draw(records_of()))


def _without_flags(given_: DeploymentInputs) -> DeploymentInputs:
    replace = msgspec.structs.replace
    roles = tuple(
        replace(item, replicas=tuple(replace(place, retiring=None) for place in item.replicas))
        for item in given_.deployment.roles
    )
    return replace(given_, deployment=replace(given_.deployment, roles=roles))


def without(given_: DeploymentInputs) -> list[tuple[str, DeploymentInputs]]:
    """The same inputs with one reading after another replaced by Unknown."""
    replace = msgspec.structs.replace
    found = [(f"evidence {item.uid}", replace(given_, members=_swap(given_.members, item, MemberEvidence(uid=item.uid, first_seen=item.first_seen))))
             for item in given_.members]  # fmt: skip
    for item in given_.views:
        if isinstance(item, RouterView):
            failed = ViewFailed(router=item.router, pod_uid=item.pod_uid, at=ago(0), kind="Timeout")
            found.append((f"view {item.pod_uid}", replace(given_, views=_swap(given_.views, item, failed))))
            for each in item.workers:
                blind = replace(item, workers=_swap(item.workers, each, replace(each, in_selection=None)))
                found.append((f"row {each.url}", replace(given_, views=_swap(given_.views, item, blind))))
    found += [(f"ready {uid}", _unready(given_, uid)) for uid in "abcrs"]
    found += [(name, replace(given_, facts=replace(given_.facts, **{name: UNSET}))) for name in _objects(given_.facts)]
    found.append(("proof", replace(given_, proof=None)))
    found.append(("list", replace(given_, deployment=replace(given_.deployment, complete=False))))
    found += [
        (
            f"age {item.name}",
            replace(given_, freshness=_swap(given_.freshness, item, replace(item, age=None, failure=None))),
        )
        for item in given_.freshness
    ]
    return found


def _objects(facts: PlatformFacts) -> list[str]:
    return [
        name
        for name in type(facts).__struct_fields__
        if getattr(PlatformFacts(), name) is UNSET and getattr(facts, name) is not UNSET
    ]


def _swap(items, old, new):
    return tuple(new if item is old else item for item in items)


def _unready(given_, uid):
    replace = msgspec.structs.replace

    def swap(each):
        return replace(each, ready=Ready.UNKNOWN) if each.uid == uid else each

    roles = tuple(
        replace(item, replicas=tuple(replace(p, members=tuple(map(swap, p.members))) for p in item.replicas))
        for item in given_.deployment.roles
    )
    declared = given_.deployment.router
    if declared is not None:
        declared = replace(declared, members=tuple(map(swap, declared.members)))
    return replace(given_, deployment=replace(given_.deployment, roles=roles, router=declared))


def trues(judged: Judged) -> set[str]:
    return {
        item.type
        for item in judged.conditions
        if item.status is Status.TRUE and item.provenance is not Provenance.MIRRORED
    }


def falses(judged: Judged) -> set[str]:
    return {item.type for item in judged.conditions if item.status is Status.FALSE}


def verified(judged: Judged) -> set[tuple]:
    return {
        (group.role, group.ordinal, leg.name)
        for group in judged.groups()
        for leg in group.legs
        if leg.state is LegState.VERIFIED
    }


def confirmed(judged: Judged) -> set[str]:
    everything = [("all", judged.convergence.serving), *judged.convergence.roles]
    return {name for name, item in everything if item.state is ServingState.CONFIRMED}


MANY = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(cases())
def test_unknown_never_adds_and_never_raises(case):
    given_, stored = case
    before = run(given_, stored)
    for name, poorer in without(given_):
        after = run(poorer, stored)
        assert trues(after) <= trues(before), name
        assert not trues(after) & falses(before), name
        assert verified(after) <= verified(before), name
        assert confirmed(after) <= confirmed(before), name
        for old, new in zip(before.roles, after.roles, strict=True):
            high, low = old.endpoints.eligible, new.endpoints.eligible
            assert low is None or (high is not None and low <= high), name
            assert new.ready is None or (old.ready is not None and new.ready <= old.ready), name


@MANY
@given(cases())
def test_what_holds_of_every_verdict(case):
    given_, stored = case
    judged = run(given_, stored)
    assert judged == run(given_, stored)
    for item in judged.roles:
        eligible = [group for group in item.groups if group.state is GroupState.ELIGIBLE]
        if item.endpoints.eligible is not None:
            assert item.endpoints.eligible == len(eligible)
        for group in eligible:
            assert not [leg for leg in group.legs if leg.state is LegState.FAILED]
            assert group.qualified_at is not None
        for group in item.groups:
            assert group.reason
            assert group.state in set(GroupState)
        serving = item.endpoints.serving
        assert (serving.value is not None) == (serving.state is ServingState.CONFIRMED)
    assert (judged.convergence.serving.value is not None) == (
        judged.convergence.serving.state is ServingState.CONFIRMED
    )
    assert len(judged.explanation.sentences) == 3
    types = [item.type for item in judged.conditions]
    assert len(types) == len(set(types))


@MANY
@given(cases(), cases())
def test_stored_state_survives_its_encoding_and_changes_nothing(case, other):
    given_, stored = case
    first = run(given_, stored)
    copied = msgspec.json.decode(msgspec.json.encode(first.stored), type=Stored)
    assert copied == first.stored
    assert run(other[0], copied) == run(other[0], first.stored)


@MANY
@given(cases())
def test_a_second_pass_on_the_same_evidence_changes_no_time(case):
    given_, stored = case
    first = run(given_, stored)
    second = run(given_, first.stored)
    times = [(group.role, group.ordinal, group.generation, group.qualified_at) for group in first.groups()]
    assert times == [(group.role, group.ordinal, group.generation, group.qualified_at) for group in second.groups()]
    assert POLICY.answered_within == 10.0
