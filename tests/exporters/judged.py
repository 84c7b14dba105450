"""A judged report in every corner of the status: known, not known, observed empty, mirrored, retiring."""

from __future__ import annotations

from msgspec.structs import replace

from router_contract.platform_facts import ScalerFact, SourceFault
from router_contract.readings import Histogram, Instant
from router_contract.router_views import Circuit, RouterView, ViewFailed, ViewSource, WorkerRow
from router_contract.status import (
    ContractCheck,
    Convergence,
    DrainAnswer,
    DrainState,
    Endpoints,
    Explanation,
    Finding,
    GroupState,
    GroupVerdict,
    Leg,
    LegName,
    LegState,
    LoadBalance,
    MemberVerdict,
    OperatorVoice,
    Parallelism,
    ParallelismSource,
    Phase,
    RankStall,
    Readiness,
    ReadinessMeaning,
    Retirement,
    RetirementStatus,
    RoleStatus,
    Serving,
    ServingState,
    SourceKind,
    Transition,
)
from router_contract.verdicts import Condition, DeploymentReport, Provenance, Status
from tests.exporters.reports import NOW, WALL, Pods, gauge, report

SERVING = Serving(state=ServingState.CONFIRMED, value=1)
UNKNOWN = Serving(state=ServingState.UNKNOWN, reason="a view is missing")
AGO = Instant(NOW.mono - 3, NOW.wall - 3)


def group(ordinal: int | None, state: GroupState, reason: str, *names: str, **more: object) -> GroupVerdict:
    members = tuple(
        MemberVerdict(name=n, uid=f"uid-{n}", ready="Unknown" if n.endswith("x") else "True") for n in names
    )
    fields = {"role": "server", "ordinal": ordinal, "generation": "/".join(m.uid for m in members)}
    return GroupVerdict(**(fields | {"state": state, "reason": reason, "members": members} | more))


ELIGIBLE = group(
    0,
    GroupState.ELIGIBLE,
    "Qualified",
    "p0",
    qualified_at=WALL - 60,
    legs=(Leg(name=LegName.MEMBERS_READY, state=LegState.VERIFIED, why="1 of 1 answer"),),
)
REVOKED = group(1, GroupState.NOT_READY, "MembersReady", "p1", message="p1 stopped")
HELD = group(None, GroupState.UNVERIFIED, "GroupForward", "p2x")


def role(*groups: GroupVerdict, eligible: int | None = 1, **more: object) -> RoleStatus:
    fields = {"name": "server", "kind": "Server", "desired": 2, "ready": 1}
    told = Endpoints(eligible=eligible, serving=SERVING)
    return RoleStatus(**(fields | {"endpoints": told, "groups": groups} | more))


def condition(kind: str, status: Status, reason: str, **more: object) -> Condition:
    return Condition(**({"type": kind, "status": status, "reason": reason, "last_transition": WALL - 30} | more))


CONVERGED = Convergence(
    serving=SERVING,
    valid=True,
    views_expected=1,
    views_usable=1,
    selected=("uid-p0",),
    wanted=("uid-p0",),
    since=WALL - 20,
)
EXPLAINED = Explanation(
    sentences=("One.", "Two.", "Three."),
    main=Finding(
        type="Member p1", status="False", reason="Down", message="connection refused", age_seconds=7.0, advice="Act"
    ),
    others=(Finding(type="RouterReady", status="False", reason="NoReadyReplicas", evidence=(("ready", "0"),)),),
    unknown=(
        Finding(type="EngineProgressing", status="Unknown", reason="NotObserved", advice="ClearsByItself"),
        Finding(type="WeightsReady", status="Unknown", reason="NotObservable"),
    ),
)
TIMES = Histogram(bounds=(1.0, float("inf")), counts=(1.0, 2.0), sum=3.0)


def pods() -> tuple[Pods, Pods]:
    engines = Pods(desired=2).pod("p0", gauge("requests-running", 1.0, rank="0")).pod("p1").pod("p2x")
    return engines, Pods("gate", "Router", "vllm_router").pod("gate-0")


def judged(**more: object) -> DeploymentReport:
    fields: dict[str, object] = {
        "judged": True,
        "phase": Phase.DEGRADED,
        "phase_message": "1 of 2 replicas are ready",
        "role_summary": "1R1S",
        "conditions": (
            condition("EndpointEligibility", Status.FALSE, "Revoked", message="1 of 2", evidence=(("revoked", "1"),)),
            condition("RouterConverged", Status.TRUE, "Converged"),
            condition("WeightsReady", Status.FALSE, "MadeUpByAnOperator", provenance=Provenance.MIRRORED),
            condition("QuotaReserved", Status.UNKNOWN, "NotObservable", provenance=Provenance.NOT_OBSERVABLE),
        ),
        "role_status": (role(ELIGIBLE, REVOKED),),
        "convergence": CONVERGED,
        "explanation": EXPLAINED,
        "stalls": (RankStall(uid="uid-p0", rank="0", seconds=0.0), RankStall(uid="uid-p1", rank="0", seconds=75.0)),
        "convergence_seconds": TIMES,
    }
    return replace(report(*pods(), generation=4), **(fields | more))


def view(*rows: WorkerRow, uid: str = "uid-gate-0") -> RouterView:
    return RouterView(router="gate-0", pod_uid=uid, read_at=AGO, source=ViewSource.WORKERS_API, workers=rows)


WORKER = WorkerRow(
    url="http://10.0.0.1:8000", host="10.0.0.1", port=8000, healthy=True, circuit=Circuit.OPEN, in_selection=False
)
LOST = ViewFailed(router="gate-0", pod_uid="uid-gate-0", at=AGO, kind="Timeout", detail="2 s")

EVERYTHING = judged(
    endpoint="http://chat.prod.svc:8000",
    role_status=(
        role(
            ELIGIBLE,
            REVOKED,
            HELD,
            eligible=None,
            quota_reserved=0,
            assigned_flavors=("a100",),
            unmanaged=False,
            readiness=Readiness(meaning=ReadinessMeaning.PROCESS_STARTED, why="the listener was moved"),
            parallelism=Parallelism(
                declared=(("tensorParallel", 2), ("dataParallelLocal", 0)),
                modes=(("expertParallel", False),),
                load_balance=LoadBalance.INTERNAL,
                source=ParallelismSource(kind=SourceKind.EXTRA_ARGS, complete=True),
            ),
        ),
    ),
    views=(view(WORKER), LOST),
    sources=(SourceFault(kind="Workload", why="Forbidden", since=WALL - 600, detail="no list"),),
    scaler=ScalerFact(binding="scaler-a", decision="to 2"),
    operator=(
        OperatorVoice(
            type="EndpointEligibility",
            status="True",
            reason="Qualified",
            observed_generation=4,
            age_seconds=2.0,
            disagrees=True,
            since=WALL - 10,
        ),
        OperatorVoice(type="TheirOwn", status="Odd", reason="AsWritten"),
    ),
    retirement=RetirementStatus(
        record=Retirement(
            role_name="server",
            replica_ordinal=0,
            state="Draining",
            reason="ReplicasReduced",
            target_member_uids=("uid-p0",),
            started_at=WALL - 50,
        ),
        phase_seconds_left=190.0,
        total_seconds_left=250.0,
    ),
    drain=(DrainAnswer(role="server", ordinal=0, state=DrainState.BUSY, requests=3.0, why="3 run"),),
    contract=(
        ContractCheck(item="port", declared="8000", observed="8000", holds=True),
        ContractCheck(item="events", declared="tcp://x:5557", observed="not dialled", holds=None, reason="NotRead"),
    ),
    transitions=(
        Transition(at=WALL - 90, what="EndpointEligibility", before="Unknown", after="True", reason="Qualified"),
        Transition(at=WALL - 30, what="EndpointEligibility", before="True", after="False", reason="Revoked"),
    ),
)
