"""Every (status, reason) of the ten conditions, of ours, two voices, and who may be mirrored."""

from __future__ import annotations

import msgspec
import pytest

from observer.judge.advice import ADVICE, advice
from observer.judge.conditions import OURS, USERS
from observer.judge.conditions_cluster import domain_registered, elastic_resize, quota_reserved, weights_ready
from observer.judge.conditions_ours import metrics_fresh, operator_current
from observer.judge.conditions_serving import kv_events_publishing, replicas_up_to_date, role_kinds_ready, router_ready
from observer.judge.judgement import with_verdicts
from router_contract.judging import Stored, StoredCondition, TargetFreshness
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_facts import (
    BindingFact,
    ElasticFact,
    OperatorStatus,
    PublisherFact,
    RolloutFact,
    RouterObjectsFact,
    ScalerFact,
    SourceFault,
    WeightsFact,
    WorkloadFact,
)
from router_contract.readings import FailureKind
from router_contract.status import Endpoints, RoleStatus, Serving, ServingState
from router_contract.targets import KvEventSource, Member, Ready
from router_contract.verdicts import Condition, DeploymentReport, Provenance, Status
from tests.judge.build import (
    GPUSTACK,
    NOW,
    OTHER,
    POLICY,
    STATIC,
    answer,
    condition,
    deployment,
    evidence,
    facts,
    inputs,
    kept,
    later,
    lost,
    member,
    record,
    replica,
    role,
    router,
    row,
    run,
    view,
)

UNSET = msgspec.UNSET


def said(found) -> str:
    return "absent" if found is None else f"{found.status.value}/{found.reason}"


NOT_OBSERVABLE = "Unknown/NotObservable"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, NOT_OBSERVABLE, id="nothing observed"),
        pytest.param({"cache": False}, "True/NotApplicable", id="no cache"),
        pytest.param({"cache": True}, NOT_OBSERVABLE, id="binding not observed"),
        pytest.param({"cache": True, "binding": None}, "False/BindingNotFound", id="binding observed absent"),
        pytest.param(
            {"cache": True, "binding": BindingFact(name="b", ready=False)}, "False/BindingNotReady", id="not ready"
        ),
        pytest.param(
            {"cache": True, "binding": BindingFact(name="b", ready=True, deleting=True)},
            "False/BindingDeleting",
            id="deleting",
        ),
        pytest.param({"cache": True, "binding": BindingFact(name="b", ready=True)}, "True/Registered", id="registered"),
        pytest.param(
            {"cache": True, "binding": BindingFact(name="b", ready=True, domain_read=False)},
            NOT_OBSERVABLE,
            id="domain unread",
        ),
    ],
)
def test_domain_registered(given, expected):
    assert said(domain_registered(facts(**given))) == expected


def load(**changes):
    return WorkloadFact(**({"role": "serve", "ordinal": 0, "reserved": True} | changes))


TWO = deployment(role(replica(member("a")), replica(member("b"), ordinal=1)))
SHORT = deployment(role(replica(member("a", declared_total=2))))
GOING = deployment(role(replica(member("a", terminating=True))))
NONE = msgspec.structs.replace(deployment(), roles=(msgspec.structs.replace(role(), replicas=()),))


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        pytest.param(TWO, {}, NOT_OBSERVABLE, id="Workloads not listed"),
        pytest.param(
            msgspec.structs.replace(TWO, complete=False),
            {"workloads": (load(), load())},
            NOT_OBSERVABLE,
            id="Pods not listed",
        ),
        pytest.param(TWO, {"workloads": (load(), load())}, "True/Reserved", id="all hold quota"),
        pytest.param(
            TWO, {"workloads": (load(), load(reserved=False))}, "False/Pending", id="half is not the deployment"
        ),
        pytest.param(TWO, {"workloads": (load(), load(deactivated=True))}, "False/Parked", id="deactivated"),
        pytest.param(
            TWO,
            {"workloads": (load(), load(preempted=True, reserved=False))},
            "False/PreemptedInPart",
            id="some preempted",
        ),
        pytest.param(
            TWO,
            {"workloads": tuple(load(preempted=True, reserved=False) for _ in range(2))},
            "False/Pending",
            id="all preempted keep nothing",
        ),
        pytest.param(
            TWO,
            {"workloads": (load(deactivated=True), load(), load(preempted=True, reserved=False))},
            "False/Parked",
            id="parked outranks preempted",
        ),
        pytest.param(NONE, {"workloads": ()}, "Unknown/NoReplicas", id="no replica"),
        pytest.param(GOING, {"workloads": ()}, "Unknown/AllReplicasTerminating", id="all leaving"),
        pytest.param(SHORT, {"workloads": ()}, "False/PodGroupIncomplete", id="a replica is short"),
        pytest.param(
            deployment(role(desired=2)), {"workloads": (load(),)}, "False/PodGroupIncomplete", id="a replica is missing"
        ),
        pytest.param(
            TWO,
            {"workloads": (), "reserved_namespace": True},
            "False/NoQueueInReservedNamespace",
            id="reserved namespace",
        ),
        pytest.param(
            TWO, {"workloads": (), "reserved_namespace": False}, "Unknown/AdmissionInFlight", id="being composed"
        ),
        pytest.param(TWO, {"workloads": ()}, NOT_OBSERVABLE, id="no Workload and the namespace not observed"),
        pytest.param(
            TWO, {"workloads": (load(),), "reserved_namespace": False}, "Unknown/AdmissionInFlight", id="one of two"
        ),
    ],
)
def test_quota_reserved(target, given, expected):
    assert said(quota_reserved(inputs(target, facts=facts(**given)))) == expected


@pytest.mark.parametrize(
    ("base", "platform", "complete", "says"),
    [
        pytest.param(STATIC, "static", True, "static file: nobody looks for Workloads", id="static file"),
        pytest.param(STATIC, "static", False, "static file: nobody looks for Workloads", id="unreadable static file"),
        pytest.param(OTHER, "other", True, "no Workloads are read on this platform", id="platform without"),
        pytest.param(OTHER, "other", False, "could not be listed", id="platform whose list failed"),
        pytest.param(GPUSTACK, "gpustack", True, "could not be listed", id="platform with Workloads"),
        pytest.param(STATIC, "gpustack", False, "could not be listed", id="facts have not come yet"),
    ],
)
def test_quota_says_why_it_is_not_known(base, platform, complete, says):
    target = msgspec.structs.replace(TWO, platform=platform, complete=complete)
    found = quota_reserved(inputs(target, facts=facts(base)))
    assert (found.status, found.reason) == (Status.UNKNOWN, "NotObservable")
    assert says in found.message


def test_quota_names_roles():
    target = deployment(role(name="prefill"), role(replica(member("b")), name="decode"))
    workloads = (load(role="prefill"), load(role="decode", reserved=False))
    assert "decode" in quota_reserved(inputs(target, facts=facts(workloads=workloads))).message


GOOD = WeightsFact(found=True, resolved=True, pods_have_them=True)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param(UNSET, NOT_OBSERVABLE, id="not observed"),
        pytest.param(None, "True/NotApplicable", id="no artifact"),
        pytest.param(GOOD, "True/Mounted", id="mounted"),
        pytest.param(msgspec.structs.replace(GOOD, delivery="Download"), "True/Downloaded", id="downloaded"),
        pytest.param(WeightsFact(found=False), "False/ArtifactNotFound", id="not found"),
        pytest.param(WeightsFact(found=True), "False/ArtifactNotResolved", id="not resolved"),
        pytest.param(msgspec.structs.replace(GOOD, claim_bound=False), "False/ClaimNotBound", id="claim"),
        *(
            pytest.param(msgspec.structs.replace(GOOD, refused=reason), f"False/{reason}", id=reason)
            for reason in (
                "AccessModeConflict",
                "NodeDeliveryUnavailable",
                "FilterNeedsNodeDelivery",
                "AnchorNeedsNodeDelivery",
            )
        ),
        pytest.param(msgspec.structs.replace(GOOD, materialized=False), "False/Materializing", id="materializing"),
        pytest.param(msgspec.structs.replace(GOOD, failed=True), "False/MaterializationFailed", id="failed"),
        pytest.param(msgspec.structs.replace(GOOD, pods_have_them=False), "False/WeightsNotMounted", id="not mounted"),
        pytest.param(
            msgspec.structs.replace(GOOD, pods_have_them=False, delivery="Download"),
            "False/Downloading",
            id="downloading",
        ),
        pytest.param(msgspec.structs.replace(GOOD, pods_have_them=None), NOT_OBSERVABLE, id="no Pod to ask"),
    ],
)
def test_weights_ready(weights, expected):
    assert said(weights_ready(inputs(facts=facts(weights=weights)))) == expected


ELASTIC = deployment(role(elastic=True))


@pytest.mark.parametrize(
    ("target", "elastic", "expected"),
    [
        pytest.param(deployment(), None, "absent", id="only with an elastic role"),
        pytest.param(ELASTIC, UNSET, NOT_OBSERVABLE, id="not observed"),
        pytest.param(ELASTIC, None, "True/NoRefusal", id="no record"),
        pytest.param(ELASTIC, ElasticFact(), "True/NoRefusal", id="nothing refused"),
        pytest.param(ELASTIC, ElasticFact(refused=True), "True/NoRefusal", id="inside its retry bound"),
        pytest.param(ELASTIC, ElasticFact(refused=True, retries_spent=True), "False/ScaleRefused", id="terminal"),
        pytest.param(ELASTIC, ElasticFact(world_known=False), "Unknown/WorldUnprovable", id="world unprovable"),
    ],
)
def test_elastic_resize(target, elastic, expected):
    assert said(elastic_resize(inputs(target, facts=facts(elastic=elastic)))) == expected


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        pytest.param(UNSET, NOT_OBSERVABLE, id="desired render not observed"),
        pytest.param(RolloutFact(desired=2, accounted=0, current=0), "Unknown/RolloutNotObserved", id="none accounted"),
        pytest.param(RolloutFact(desired=2, accounted=2, current=2), "True/UpToDate", id="up to date"),
        pytest.param(
            RolloutFact(desired=2, accounted=2, current=1, outdated_roles=("r",)),
            "False/RolloutInProgress",
            id="rolling",
        ),
        pytest.param(RolloutFact(desired=2, accounted=1, current=1), "False/ReplacementInProgress", id="one missing"),
        pytest.param(
            RolloutFact(desired=2, accounted=2, current=0, held_by="cache", outdated_roles=("r",)),
            "False/RolloutHeldByCache",
            id="held by cache",
        ),
        pytest.param(
            RolloutFact(desired=2, accounted=2, current=0, held_by="weights", outdated_roles=("r",)),
            "False/RolloutHeldByWeights",
            id="held by weights",
        ),
        pytest.param(
            RolloutFact(desired=2, accounted=1, current=1, held_by="cache"),
            "False/ReplacementInProgress",
            id="a replicas change proceeds while held",
        ),
    ],
)
def test_replicas_up_to_date(rollout, expected):
    assert said(replicas_up_to_date(inputs(facts=facts(rollout=rollout)))) == expected


def test_held_by_cache_says_what_would_wait():
    held = RolloutFact(desired=2, accounted=2, current=0, held_by="cache", outdated_roles=("r",))
    message = replicas_up_to_date(inputs(facts=facts(rollout=held))).message
    assert message == "an edit would wait on the cache: r"


def test_a_render_refusal_leaves_the_rest_computed():
    judged = run(inputs(ROUTED, facts=facts(router_objects=RouterObjectsFact(render_error="ports differ")), views=()))
    assert answer(judged, "RouterReady") == "False/RenderFailed"
    assert answer(judged, "RoleKindsReady") == "True/AllKindsReady"
    assert (judged.phase.value, judged.phase_message, judged.roles[0].ready) == ("Degraded", "ports differ", 1)


def test_scaler_annotations_are_shown():
    given = inputs(facts=facts(scaler=ScalerFact(binding="scaler-a", decision="d7")))
    report = with_verdicts(DeploymentReport(deployment=given.deployment, at=NOW), given, run(given))
    assert report.scaler == ScalerFact(binding="scaler-a", decision="d7")
    assert report.role_status[0].desired == 1


def kinds(*pairs):
    serving = Endpoints(eligible=None, serving=Serving(state=ServingState.UNKNOWN))
    return [
        RoleStatus(name=f"r{n}", kind=kind, desired=1, ready=ready, endpoints=serving)
        for n, (kind, ready) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        pytest.param(kinds(), "Unknown/NoRoleStatuses", id="no role"),
        pytest.param(kinds(("Server", 1)), "True/AllKindsReady", id="one ready"),
        pytest.param(kinds(("Server", 1), ("Server", 0)), "True/AllKindsReady", id="one of two of one kind"),
        pytest.param(kinds(("Prefill", 1), ("Decode", 0)), "False/KindsNotReady", id="a kind without"),
        pytest.param(kinds(("Encode", 1), ("Prefill", 1), ("Decode", 1)), "True/AllKindsReady", id="all three"),
        pytest.param(
            kinds(("Encode", 0), ("Prefill", 1), ("Decode", 1)), "False/KindsNotReady", id="encode counts too"
        ),
        pytest.param(kinds(("Server", None)), NOT_OBSERVABLE, id="not known"),
        pytest.param(
            kinds(("Server", None), ("Decode", 0)), "False/KindsNotReady", id="a known lack beside an unknown"
        ),
        pytest.param(kinds(("Server", None), ("Server", 1)), "True/AllKindsReady", id="one known is enough"),
    ],
)
def test_role_kinds_ready(roles, expected):
    assert said(role_kinds_ready(roles)) == expected


def test_a_kind_without_replicas_is_named_in_role_order():
    assert role_kinds_ready(kinds(("Prefill", 0), ("Decode", 0))).message.endswith("Prefill, Decode")


def publishing(*kinds_, with_router=True, base=GPUSTACK, publishers=UNSET, command=()):
    roles = tuple(
        role(replica(member(chr(97 + n))), name=kind.lower(), kind=kind, command=command)
        for n, kind in enumerate(kinds_)
    )
    given = inputs(deployment(*roles, with_router=with_router), facts=facts(base, publishers=publishers))
    return said(kv_events_publishing(given))


def pub(name, *, yes=True):
    return PublisherFact(role=name, publishes=yes)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(lambda: publishing("Server", with_router=False), "True/NotApplicable", id="unrouted servers"),
        pytest.param(lambda: publishing("Prefill", "Decode", with_router=False), "False/NoRouter", id="unrouted pair"),
        pytest.param(lambda: publishing("Server"), NOT_OBSERVABLE, id="rendered Pods not observed"),
        pytest.param(lambda: publishing("Server", publishers=(pub("server"),)), "True/Publishing", id="publishing"),
        pytest.param(
            lambda: publishing("Server", publishers=(pub("server", yes=False),)),
            "False/PublisherDisabled",
            id="disabled",
        ),
        pytest.param(lambda: publishing("Server", publishers=()), NOT_OBSERVABLE, id="this role not observed"),
        pytest.param(
            lambda: publishing("Encode", "Prefill", "Decode", publishers=(pub("prefill"),)),
            "True/Publishing",
            id="encode and decode are excluded",
        ),
        pytest.param(
            lambda: publishing("Server", publishers=(pub("server"),), command=("x",)),
            "Unknown/RoleUnmanaged",
            id="take-over",
        ),
        pytest.param(
            lambda: publishing("Server", base=STATIC), "False/PublisherDisabled", id="a file without publishers"
        ),
    ],
)
def test_kv_events_publishing(found, expected):
    assert found() == expected


def test_a_file_with_publishers():
    events = (KvEventSource(endpoint="tcp://10.0.0.1:5557"),)
    target = deployment(role(replica(member("a", kv_events=events))), with_router=True)
    assert said(kv_events_publishing(inputs(target, facts=STATIC))) == "True/Publishing"


ROUTED = deployment(with_router=True)


def routed(ready):
    return deployment(
        with_router=router(members=tuple(msgspec.structs.replace(m, ready=ready) for m in router().members))
    )


@pytest.mark.parametrize(
    ("target", "given", "views", "expected"),
    [
        pytest.param(deployment(), GPUSTACK, (), "True/NotApplicable", id="no router"),
        pytest.param(ROUTED, GPUSTACK, (), NOT_OBSERVABLE, id="objects not observed"),
        pytest.param(
            ROUTED,
            facts(router_objects=RouterObjectsFact(render_error="ports differ")),
            (),
            "False/RenderFailed",
            id="render",
        ),
        pytest.param(ROUTED, facts(router_objects=None), (), "Unknown/NotDeployed", id="observed absent"),
        pytest.param(
            ROUTED,
            facts(router_objects=RouterObjectsFact(deployed=False)),
            (),
            "Unknown/NotDeployed",
            id="not deployed",
        ),
        pytest.param(ROUTED, facts(router_objects=RouterObjectsFact()), (), "False/NoReadyReplicas", id="none ready"),
        pytest.param(ROUTED, facts(router_objects=RouterObjectsFact(ready=1)), (), "True/Ready", id="ready"),
        pytest.param(routed(Ready.TRUE), OTHER, (), "True/Ready", id="from Pods"),
        pytest.param(routed(Ready.FALSE), OTHER, (), "False/NoReadyReplicas", id="from Pods, none"),
        pytest.param(routed(Ready.UNKNOWN), OTHER, (), NOT_OBSERVABLE, id="nobody reported"),
        pytest.param(routed(Ready.UNKNOWN), STATIC, (view(row()),), "True/Ready", id="a static router that answered"),
        pytest.param(routed(Ready.UNKNOWN), STATIC, (lost(),), NOT_OBSERVABLE, id="a static router that did not"),
        pytest.param(deployment(with_router=router(members=())), OTHER, (), "Unknown/NotDeployed", id="no Pod"),
    ],
)
def test_router_ready(target, given, views, expected):
    assert said(router_ready(inputs(target, facts=given, views=views), NOW, POLICY)) == expected


def metrics(age=1.0, failure=None, uid="r"):
    return (TargetFreshness(name="router-r", age=age, uid=uid, failure=failure, detail="gone" if failure else ""),)


HTTP_LOST = lost(kind="Http", detail="answered 503")
REFUSED_LOST = lost(kind="Refused", detail="connection refused")


@pytest.mark.parametrize(
    ("views", "freshness", "expected"),
    [
        pytest.param((HTTP_LOST,), metrics(), "True/Ready", id="its metrics are read, its workers are not told"),
        pytest.param((lost(kind="NoAddress"),), metrics(), "True/Ready", id="no API address, metrics are read"),
        pytest.param((HTTP_LOST,), metrics(uid="other"), NOT_OBSERVABLE, id="another target's metrics prove nothing"),
        pytest.param((HTTP_LOST,), metrics(age=13.0), NOT_OBSERVABLE, id="stale is not fresh"),
        pytest.param((HTTP_LOST,), metrics(failure=FailureKind.TIMEOUT), NOT_OBSERVABLE, id="the newest read failed"),
        pytest.param((REFUSED_LOST,), metrics(), NOT_OBSERVABLE, id="metrics answer and the API port refuses"),
        pytest.param((lost(),), metrics(), NOT_OBSERVABLE, id="metrics answer and the API hangs"),
        pytest.param((), metrics(), NOT_OBSERVABLE, id="the API was never asked"),
        pytest.param(
            (REFUSED_LOST,), metrics(failure=FailureKind.REFUSED), "False/NoReadyReplicas", id="refused on both ports"
        ),
        pytest.param((HTTP_LOST,), metrics(failure=FailureKind.REFUSED), NOT_OBSERVABLE, id="only metrics refuse"),
        pytest.param(
            (view(row()), REFUSED_LOST), metrics(failure=FailureKind.REFUSED), "True/Ready", id="a view is valid"
        ),
    ],
)
def test_a_static_router_counts_by_its_view_or_its_metrics(views, freshness, expected):
    given = inputs(routed(Ready.UNKNOWN), facts=STATIC, views=views, freshness=freshness)
    assert said(router_ready(given, NOW, POLICY)) == expected


def test_a_lost_view_with_fresh_metrics_leaves_the_phase_and_the_summary_known():
    given = inputs(routed(Ready.UNKNOWN), facts=STATIC, views=(HTTP_LOST,), freshness=metrics())
    judged = run(given, kept())
    assert (judged.phase.value, judged.role_summary) == ("Ready", "1R1S")


def fresh(*ages):
    return tuple(TargetFreshness(name=f"t{n}", age=age) for n, age in enumerate(ages))


@pytest.mark.parametrize(
    ("freshness", "expected"),
    [
        (fresh(), "Unknown/NoTarget"),
        (fresh(1.0, 12.0), "True/Fresh"),
        (fresh(1.0, 12.1), "False/Stale"),
        (fresh(1.0, 400.0), "False/Stale"),
        (fresh(1.0, None), "Unknown/NeverRead"),
        (fresh(None, 50.0), "False/Stale"),
    ],
)
def test_metrics_fresh(freshness, expected):
    assert said(metrics_fresh(freshness, POLICY)) == expected


def test_stale_says_how_the_newest_read_failed():
    gone = (TargetFreshness(name="t0", age=20.0, detail="connection refused"), *fresh(1.0))
    assert metrics_fresh(gone, POLICY).message == "t0 is stale: connection refused (1 of 2 targets are not fresh)"
    assert "no read of it has failed" in metrics_fresh(fresh(20.0), POLICY).message


def test_the_time_of_a_reason_moves_with_it_and_the_transition_only_with_the_status():
    target = deployment(with_router=True)
    lost_ = run(inputs(target, views=(lost(),)), kept(record(listed=False)))
    first = condition(lost_, "RouterConverged")
    assert (first.reason, first.last_transition, first.reason_since) == ("ViewUnavailable", NOW.wall, NOW.wall)
    given = inputs(msgspec.structs.replace(target, complete=False), views=(view(row()),))
    again = run(given, lost_.stored, later(50))
    other = run(
        inputs(
            deployment(role(replica(member(ready=Ready.UNKNOWN)), replica(member("b"), ordinal=1)), with_router=True),
            views=(view(row(), row("b"), read_at=later(49)),),
            members=(evidence("b"),),
        ),
        lost_.stored,
        later(60),
    )
    assert condition(again, "RouterConverged").reason == "ViewUnavailable"
    assert condition(again, "RouterConverged").reason_since == NOW.wall
    moved = condition(other, "RouterConverged")
    assert (moved.reason, moved.last_transition, moved.reason_since) == (
        "EligibilityUnknown",
        NOW.wall,
        later(60).wall,
    )


def test_a_state_stored_without_the_time_of_a_reason_does_not_guess_it():
    old = Stored(
        conditions=(
            StoredCondition(type="MetricsFresh", status=Status.UNKNOWN, reason="NoTarget", last_transition=5.0),
        )
    )
    found = condition(run(stored=old), "MetricsFresh")
    assert (found.last_transition, found.reason_since) == (5.0, None)


def test_expired_is_said():
    assert "expired" in metrics_fresh(fresh(301.0), POLICY).message


def operator(*conditions, generation=7, age=10.0):
    return OperatorStatus(read_at=NOW.wall - age, observed_generation=generation, conditions=conditions)


@pytest.mark.parametrize(
    ("given", "lag", "expected"),
    [
        pytest.param(UNSET, None, NOT_OBSERVABLE, id="not observed"),
        pytest.param(None, None, "absent", id="no operator"),
        pytest.param(operator(), None, "True/Current", id="current"),
        pytest.param(operator(generation=6), NOW.wall - 10, "True/CatchingUp", id="behind for a moment"),
        pytest.param(operator(generation=6), NOW.wall - 121, "False/Lagging", id="behind for over two minutes"),
        pytest.param(operator(generation=None), None, NOT_OBSERVABLE, id="it does not say"),
    ],
)
def test_operator_current(given, lag, expected):
    assert said(operator_current(inputs(facts=facts(operator=given)), lag, NOW, POLICY)) == expected


def test_lag_is_measured_over_passes_and_restarts():
    given = inputs(facts=facts(operator=operator(generation=6)))
    first = run(given)
    assert answer(first, "OperatorCurrent") == "True/CatchingUp"
    copied = msgspec.json.decode(msgspec.json.encode(first.stored), type=type(first.stored))
    second = run(given, copied, later(121))
    assert answer(second, "OperatorCurrent") == "False/Lagging"


def oc(kind="DomainRegistered", status="True", reason="Registered"):
    return OperatorCondition(type=kind, status=status, reason=reason, message="m")


FORBIDDEN = SourceFault(kind="KVCachePoolBinding", why="Forbidden", since=1.0)
FAILING = SourceFault(kind="KVCachePoolBinding", why="Failing", since=1.0)


class TestTwoVoices:
    def test_both_stand_side_by_side(self):
        judged = run(inputs(facts=facts(cache=True, binding=None, operator=operator(oc()))))
        assert answer(judged, "DomainRegistered") == "False/BindingNotFound"
        (voice,) = judged.operator
        assert (voice.status, voice.reason, voice.disagrees, voice.since) == ("True", "Registered", True, NOW.wall)
        assert (voice.age_seconds, voice.observed_generation) == (10.0, 7)

    def test_since_is_kept(self):
        given = inputs(facts=facts(cache=True, binding=None, operator=operator(oc())))
        again = run(given, run(given).stored, later(50))
        assert again.operator[0].since == NOW.wall

    def test_agreeing_voices(self):
        judged = run(inputs(facts=facts(cache=False, operator=operator(oc(reason="NotApplicable")))))
        assert (judged.operator[0].disagrees, judged.operator[0].since) == (False, None)

    def test_an_unknown_type_and_reason_are_shown_as_written(self):
        judged = run(inputs(facts=facts(operator=operator(oc("FutureThing", "Maybe", "Whatever")))))
        assert [(v.type, v.status, v.reason, v.disagrees) for v in judged.operator] == [
            ("FutureThing", "Maybe", "Whatever", False)
        ]

    def test_mirrored_with_its_age_where_the_objects_may_not_be_read(self):
        judged = run(inputs(facts=facts(operator=operator(oc()), sources=(FORBIDDEN,))))
        found = condition(judged, "DomainRegistered")
        assert (said(found), found.provenance) == ("True/Registered", Provenance.MIRRORED)
        assert found.evidence == (("ageSeconds", "10"),)
        assert judged.operator[0].disagrees is False

    def test_a_lost_read_is_not_mirrored(self):
        for sources in ((), (FAILING,)):
            judged = run(inputs(facts=facts(operator=operator(oc()), sources=sources)))
            assert answer(judged, "DomainRegistered") == NOT_OBSERVABLE
            assert condition(judged, "DomainRegistered").provenance is Provenance.NOT_OBSERVABLE

    def test_what_only_the_operator_knows_is_mirrored(self):
        judged = run(inputs(facts=facts(operator=operator(oc("ReplicasUpToDate", "False", "RolloutHeldByCache")))))
        assert answer(judged, "ReplicasUpToDate") == "False/RolloutHeldByCache"

    def test_a_status_that_is_none_of_the_three_is_unknown(self):
        judged = run(inputs(facts=facts(operator=operator(oc("ReplicasUpToDate", "Perhaps", "X")))))
        assert answer(judged, "ReplicasUpToDate") == "Unknown/X"

    def test_unsupported_belongs_to_the_operator(self):
        judged = run(inputs(facts=facts(operator=operator(oc("EndpointEligibility", "Unknown", "Unsupported")))))
        assert answer(judged, "EndpointEligibility") == "True/Qualified"
        assert (judged.operator[0].reason, judged.operator[0].disagrees) == ("Unsupported", True)


class TestTransitionTime:
    def test_moves_only_with_the_status(self):
        first = run(inputs(facts=facts(cache=True, binding=None)))
        stored = first.stored
        second = run(inputs(facts=facts(cache=True, binding=BindingFact(name="b", ready=False))), stored, later(9))
        assert answer(second, "DomainRegistered") == "False/BindingNotReady"
        assert condition(second, "DomainRegistered").last_transition == NOW.wall
        third = run(inputs(facts=facts(cache=False)), second.stored, later(20))
        assert condition(third, "DomainRegistered").last_transition == later(20).wall

    def test_survives_a_restart(self):
        first = run()
        copied = msgspec.json.decode(msgspec.json.encode(first.stored), type=type(first.stored))
        assert run(inputs(), copied, later(30)).conditions == run(inputs(), first.stored, later(30)).conditions
        assert condition(run(inputs(), copied, later(30)), "EndpointEligibility").last_transition == NOW.wall

    def test_the_generation_is_the_one_judged(self):
        assert {item.observed_generation for item in run().conditions} == {7}


def test_all_ten_and_ours_are_answered_in_order():
    judged = run(inputs(ELASTIC, facts=facts(operator=operator())))
    types = [item.type for item in judged.conditions]
    assert types == [kind for kind in (*USERS, *OURS) if kind in types]
    assert set(USERS) <= set(types)
    assert set(OURS) - {"KVEventsLive", "CanaryAnalysis"} <= set(types)


def test_conditions_of_other_judges_are_taken():
    extra = (
        Condition(type="CacheAttached", status=Status.TRUE, reason="CacheActive"),
        Condition(type="KVEventsLive", status=Status.FALSE, reason="Silent"),
        Condition(type="CanaryAnalysis", status=Status.UNKNOWN, reason="NoTraffic"),
    )
    judged = run(inputs(extra=extra))
    assert answer(judged, "CacheAttached") == "True/CacheActive"
    assert answer(judged, "KVEventsLive") == "False/Silent"
    assert answer(judged, "CanaryAnalysis") == "Unknown/NoTraffic"


def test_nothing_is_false_when_nothing_was_observed():
    bare = msgspec.structs.replace(ROUTED, roles=(role(replica(Member(uid="a", name="a"))),), router=router(members=()))
    judged = run(inputs(bare, members=(), facts=facts(retirement=UNSET)))
    assert [item.type for item in judged.conditions if item.status is Status.FALSE] == []


def test_judging_stops_while_deleting():
    first = run()
    judged = run(inputs(msgspec.structs.replace(deployment(), deleting=True)), first.stored, later(5))
    assert (judged.phase.value, judged.conditions, judged.writable) == ("Deleting", (), False)
    assert judged.stored == first.stored


ONLY_TRUE = {
    "Registered",
    "NotApplicable",
    "Reserved",
    "CacheActive",
    "UpToDate",
    "AllKindsReady",
    "Publishing",
    "Ready",
}
REASONS = {
    "DomainRegistered": ("BindingNotFound", "BindingNotReady", "BindingDeleting"),
    "QuotaReserved": (
        "Parked", "PreemptedInPart", "NoReplicas", "AllReplicasTerminating", "PodGroupIncomplete",
        "NoQueueInReservedNamespace", "AdmissionInFlight", "Pending",
    ),
    "CacheAttached": ("CacheOperationsFailing", "Unmanaged", "NoReplicaReady", "NoObservationAvailable"),
    "ReplicasUpToDate": (
        "RolloutInProgress", "ReplacementInProgress", "RolloutHeldByCache", "RolloutHeldByWeights", "RolloutNotObserved",
    ),
    "RoleKindsReady": ("KindsNotReady", "NoRoleStatuses"),
    "KVEventsPublishing": ("NoRouter", "RoleUnmanaged", "PublisherDisabled"),
    "RouterReady": ("RenderFailed", "NotDeployed", "NoReadyReplicas"),
    "WeightsReady": (
        "ArtifactNotFound", "ArtifactNotResolved", "ClaimNotBound", "AccessModeConflict", "NodeDeliveryUnavailable",
        "FilterNeedsNodeDelivery", "AnchorNeedsNodeDelivery", "Materializing", "MaterializationFailed", "WeightsNotMounted",
        "Downloading",
    ),
    "EndpointEligibility": ("NotObserved", "Revoked", "HeldUnverified", "Unsupported"),
    "ElasticResize": ("ScaleRefused", "WorldUnprovable"),
    "KVEventsLive": ("Silent", "GapUnrepaired", "NotSubscribed", "Syncing", "Unreachable", "Broken", "NoReplay"),
    "RouterConverged": ("MissingEndpoint", "ExtraEndpoint", "ViewsDisagree", "ViewUnavailable", "EligibilityUnknown"),
    "RouterContractHolds": ("MetricNameAbsent", "PortUnreachable", "SelectorMismatch", "EventsNotDialable", "NotRead"),
    "MetricsFresh": ("Stale", "NeverRead", "NoTarget"),
    "EngineProgressing": ("Stalled", "NotObserved"),
    "CanaryAnalysis": (
        "ThresholdBreached", "MarginExceeded", "AnalysisStalled", "StableRevisionMissing", "Manual",
    ),
    "OperatorCurrent": ("Lagging", "CatchingUp"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "reason"), [(kind, reason) for kind, all_ in REASONS.items() for reason in all_])
def test_every_reason_that_is_not_true_has_advice(kind, reason):
    row_ = advice(kind, reason)
    assert row_ is not None
    assert row_.hint
    assert row_.whose


def test_advice_has_no_row_for_a_reason_nobody_gives():
    others = {("Member", name) for name in ("Loading", "StartupLoop", "Down", "Saturated", "Failing")}
    others |= {("Group", name) for name in ("Retiring", "RetirementAborted", "Replacing", "Incomplete")}
    others |= {("Router", "Down"), ("ReadyCount", "CountsDisagree"), ("Scaler", "ScalerNotFound")}
    others |= {("CachePool", name) for name in ("EndpointDiffers", "PoolNotFound")}
    assert set(ADVICE) == {(kind, reason) for kind, all_ in REASONS.items() for reason in all_} | others


def test_parked_is_over_and_preempted_in_part_is_the_one_to_act_on():
    assert advice("QuotaReserved", "Parked").course.value == "Over"
    assert advice("QuotaReserved", "PreemptedInPart").course.value == "Act"
    assert advice("QuotaReserved", "Pending").course.value == "ClearsByItself"


def test_what_cannot_be_read_from_here_does_not_clear_by_itself():
    assert {advice(kind, "NotObservable").course.value for kind in (*USERS, *OURS)} == {"StaysUnknown"}


def test_a_parked_deployment_misses_no_kind():
    parked = [msgspec.structs.replace(role, desired=0) for role in kinds(("Server", 0), ("Decode", 0))]
    assert role_kinds_ready(parked).status is Status.TRUE
    assert role_kinds_ready([*parked, *kinds(("Prefill", 0))]).reason == "KindsNotReady"
    assert role_kinds_ready(kinds(("Server", 0))).reason == "KindsNotReady"


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        pytest.param(kinds(("Server", 1), ("Server", 0), ("Server", 1)), "Server 2 of 3", id="counted"),
        pytest.param(kinds(("Server", 1), ("Server", None)), "Server at least 1 of 2", id="one is not known"),
        pytest.param(kinds(("Prefill", 1), ("Decode", 1)), "Prefill 1 of 1, Decode 1 of 1", id="each kind"),
    ],
)
def test_ready_kinds_are_told_with_their_replicas(roles, message):
    assert role_kinds_ready(roles).message == f"every kind has a ready replica ({message})"
