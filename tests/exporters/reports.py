"""Short ways to write a `DeploymentReport`: values by signal, Pods by role, at one instant."""

from __future__ import annotations

from msgspec.structs import replace

from router_contract.readings import FailureKind, Histogram, Instant, MissingCode, SignalValue, State, Window
from router_contract.targets import (
    Address,
    Component,
    Deployment,
    DeploymentKey,
    Member,
    Replica,
    Role,
    RouterDeclaration,
    StoreDeclaration,
    TargetKey,
)
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetReport, TargetState, TargetStatus

WALL = 1_800_000_000.0
NOW = Instant(1000.0, WALL)
KEY = DeploymentKey("prod", "chat")


def gauge(signal: str, value: float, *, state: State = State.FRESH, age: float = 1.0, **labels: str) -> SignalValue:
    return SignalValue(
        signal=signal,
        labels=tuple(labels.items()),
        value=value,
        state=state,
        age_seconds=age,
        observed_at=WALL - age,
        source=f"wire:{signal}",
    )


def counter(signal: str, increase: float | None, *, value: float = 100.0, seconds: float = 60.0, **labels: str):
    """A counter with its window; ``None`` is a first read."""
    window = None if increase is None else Window(increase=increase, seconds=seconds)
    return replace(
        gauge(signal, value, **labels),
        window=window,
        window_missing=MissingCode.AWAITING_SECOND_SAMPLE if window is None else None,
        running_total=value,
    )


def hist(signal: str, count: float | None, mean: float = 0.5, **labels: str) -> SignalValue:
    """A histogram whose window saw ``count`` observations of one mean."""
    shape = Histogram(bounds=(1.0, float("inf")), counts=(50.0, 50.0), sum=25.0)
    window = None
    if count is not None:
        delta = Histogram(bounds=(1.0, float("inf")), counts=(count, count), sum=count * mean)
        window = Window(increase=count, seconds=60.0, histogram=delta, mean=mean if count else None)
    return replace(
        gauge(signal, 50.0, **labels),
        histogram=shape,
        window=window,
        window_missing=MissingCode.AWAITING_SECOND_SAMPLE if window is None else None,
        running_histogram=shape,
    )


def gone(signal: str, code: MissingCode = MissingCode.ABSENT, **labels: str) -> SignalValue:
    return SignalValue(signal=signal, labels=tuple(labels.items()), missing=code)


def status(
    name: str,
    component: Component = Component.ENGINE,
    software: str = "vllm",
    role: str = "server",
    state: TargetState = TargetState.UP,
    **more: object,
) -> TargetStatus:
    fields: dict[str, object] = {
        "key": TargetKey(KEY, f"uid-{name}", component, 8000),
        "component": component,
        "software": software,
        "version": None,
        "role": role,
        "member": name,
        "url": f"http://10.0.0.1:8000/metrics?{name}",
        "state": state,
    }
    if state is TargetState.UP:
        fields |= {"last_success": WALL - 1, "age_seconds": 1.0}
    if state is TargetState.FAILING:
        fields |= {"last_error_kind": FailureKind.HTTP, "last_error": "status 500"}
    return TargetStatus(**(fields | more))


def member(name: str, **more: object) -> Member:
    address = Address(host="10.0.0.1", port=8000)
    return Member(**({"uid": f"uid-{name}", "name": name, "metrics": address} | more))


class Pods:
    """One role or the router with its Pods and what was read from them."""

    def __init__(self, name: str = "server", kind: str = "Server", software: str = "vllm", **role: object) -> None:
        self.name, self.kind, self.software, self.role = name, kind, software, role
        self.members: list[Member] = []
        self.targets: list[TargetReport] = []

    @property
    def component(self) -> Component:
        return Component.ROUTER if self.kind == "Router" else Component.ENGINE

    def pod(self, name: str, *values: SignalValue, state: TargetState = TargetState.UP, read: bool = True, **more):
        merged = more.pop("merged", ())
        version = more.pop("version", None)
        self.members.append(member(name, **more))
        if read:
            shown = status(name, self.component, self.software, self.name, state, version=version)
            self.targets.append(TargetReport(status=shown, values=values, merged=merged))
        return self

    def declared(self) -> Role | RouterDeclaration:
        fields = {"desired": len(self.members)} | self.role
        if self.component is Component.ROUTER:
            return RouterDeclaration(name=self.name, software=self.software, members=tuple(self.members), **fields)
        replicas = tuple(Replica(ordinal=i, members=(m,)) for i, m in enumerate(self.members))
        fields.setdefault("replicas", replicas)
        return Role(name=self.name, kind=self.kind, engine=self.software, **fields)


def report(*groups: Pods, roles: tuple[RoleMeasurement, ...] = (), pool: bool = False, **deployment: object):
    declared = [group.declared() for group in groups]
    router = next((d for d in declared if isinstance(d, RouterDeclaration)), None)
    stores = (StoreDeclaration(name="pool", software="mooncake"),) if pool else ()
    return DeploymentReport(
        deployment=Deployment(
            key=KEY,
            uid="uid",
            roles=tuple(d for d in declared if isinstance(d, Role)),
            router=router,
            stores=stores,
            **deployment,
        ),
        at=NOW,
        targets=tuple(target for group in groups for target in group.targets),
        roles=roles,
    )
