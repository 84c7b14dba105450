"""Small deployments, members, views and evidence for judging tests: a healthy one, changed by keyword."""

from __future__ import annotations

import msgspec

from observer.judge.judgement import judge
from router_contract.judging import (
    DeploymentInputs,
    GroupRecord,
    Judged,
    JudgePolicy,
    MemberEvidence,
    RankEvidence,
    Stored,
)
from router_contract.platform_facts import PlatformFacts
from router_contract.readings import FailureKind, Instant
from router_contract.router_views import Circuit, RouterView, ViewFailed, ViewSource, WorkerRow
from router_contract.status import GroupState, GroupVerdict
from router_contract.targets import Address, Deployment, DeploymentKey, Member, Ready, Replica, Role, RouterDeclaration
from router_contract.verdicts import Condition

NOW = Instant(1000.0, 500_000.0)
POLICY = JudgePolicy()
GPUSTACK = PlatformFacts(
    platform="gpustack", managed=True, declared=False, seats=True, ready_by_reading=False, retirement=None
)
OTHER = PlatformFacts(platform="other", managed=False, declared=True, ready_by_reading=False)
STATIC = PlatformFacts()


def ago(seconds: float) -> Instant:
    return Instant(NOW.mono - seconds, NOW.wall - seconds)


def later(seconds: float) -> Instant:
    return Instant(NOW.mono + seconds, NOW.wall + seconds)


def member(uid="a", **changes) -> Member:
    number = ord(uid[0]) - ord("a") + 1
    values = {
        "uid": uid,
        "name": f"pod-{uid}",
        "seat": 0,
        "host": f"10.0.0.{number}",
        "api": Address(host=f"10.0.0.{number}", port=8000),
        "metrics": Address(host=f"10.0.0.{number}", port=8000),
        "ready": Ready.TRUE,
        "readiness_gated": True,
        "declared_total": 1,
    }
    return Member(**(values | changes))


def replica(*members: Member, ordinal=0, **changes) -> Replica:
    return Replica(**({"ordinal": ordinal, "members": members or (member(),), "replacing": False} | changes))


def role(*replicas: Replica, **changes) -> Role:
    replicas = replicas or (replica(),)
    return Role(**({"name": "serve", "engine": "vLLM", "desired": len(replicas), "replicas": replicas} | changes))


def router(*uids: str, **changes) -> RouterDeclaration:
    uids = uids or ("r",)
    members = tuple(
        Member(
            uid=uid,
            name=f"router-{uid}",
            host="10.0.1.1",
            ready=Ready.TRUE,
            metrics=Address(host="10.0.1.1", port=9090),
        )
        for uid in uids
    )
    return RouterDeclaration(
        **({"name": "sglang-gateway", "software": "sglang_router", "desired": len(uids), "members": members} | changes)
    )


def deployment(*roles: Role, with_router=False, **changes) -> Deployment:
    values = {
        "key": DeploymentKey("ns", "md"),
        "uid": "md-uid",
        "generation": 7,
        "roles": roles or (role(),),
        "router": router() if with_router is True else (with_router or None),
    }
    return Deployment(**(values | changes))


def evidence(uid="a", **changes) -> MemberEvidence:
    values = {
        "uid": uid,
        "first_seen": ago(500),
        "incarnation": "1",
        "answered_at": ago(2),
        "ranks": (rank(),),
    }
    return MemberEvidence(**(values | changes))


def rank(name="0", **changes) -> RankEvidence:
    values = {"rank": name, "work": 1.0, "work_since": ago(30), "moved_at": ago(2), "watched_since": ago(300)}
    return RankEvidence(**(values | changes))


def refused(uid="a", **changes) -> MemberEvidence:
    return evidence(uid, answered_at=None, failed_at=ago(1), failure=FailureKind.REFUSED, **changes)


def row(uid="a", **changes) -> WorkerRow:
    number = ord(uid[0]) - ord("a") + 1
    values = {
        "url": f"http://10.0.0.{number}:8000",
        "host": f"10.0.0.{number}",
        "port": 8000,
        "healthy": True,
        "circuit": Circuit.CLOSED,
        "in_selection": True,
    }
    return WorkerRow(**(values | changes))


def view(*rows: WorkerRow, uid="r", **changes) -> RouterView:
    values = {
        "router": f"router-{uid}",
        "pod_uid": uid,
        "boot_id": f"boot-{uid}",
        "read_at": ago(2),
        "source": ViewSource.WORKERS_API,
        "workers": rows,
    }
    return RouterView(**(values | changes))


def lost(uid="r", **changes) -> ViewFailed:
    values = {"router": f"router-{uid}", "pod_uid": uid, "at": ago(1), "kind": "Timeout", "detail": "2 s"}
    return ViewFailed(**(values | changes))


def inputs(target: Deployment | None = None, **changes) -> DeploymentInputs:
    target = target if target is not None else deployment()
    members = tuple(evidence(item.uid) for each in target.roles for item in each.members())
    return DeploymentInputs(**({"deployment": target, "facts": GPUSTACK, "members": members} | changes))


def record(uid="a", **changes) -> GroupRecord:
    values = {
        "role": "serve",
        "ordinal": 0,
        "generation": uid,
        "state": GroupState.ELIGIBLE,
        "qualified_at": 400_000.0,
        "listed": True,
        "answered": tuple(uid.split("/")),
    }
    return GroupRecord(**(values | changes))


def kept(*records: GroupRecord, **changes) -> Stored:
    return Stored(groups=records or (record(),), **changes)


def run(given: DeploymentInputs | None = None, stored: Stored | None = None, now=NOW) -> Judged:
    return judge(given if given is not None else inputs(), stored or Stored(), now, POLICY)


def group(judged: Judged, index=0) -> GroupVerdict:
    return judged.groups()[index]


def condition(judged: Judged, kind: str) -> Condition | None:
    return next((item for item in judged.conditions if item.type == kind), None)


def answer(judged: Judged, kind: str) -> str:
    """``Status/Reason`` of a condition, or ``absent``."""
    found = condition(judged, kind)
    return "absent" if found is None else f"{found.status.value}/{found.reason}"


def leg(verdict: GroupVerdict, name: str):
    return next(item for item in verdict.legs if item.name == name)


def facts(base: PlatformFacts = GPUSTACK, **changes) -> PlatformFacts:
    return msgspec.structs.replace(base, **changes)
