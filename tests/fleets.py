"""Short ways to write deployments, a clock that is set by hand, and bodies of a small vLLM."""

from __future__ import annotations

from typing import Any

from observer.fleet import Policy
from observer.measure.exposition import Limits
from observer.store import Store
from router_contract.readings import Histogram, Instant, SignalValue
from router_contract.targets import (
    Address,
    Component,
    Deployment,
    DeploymentKey,
    Member,
    Replica,
    Role,
    RouterDeclaration,
    Target,
    TargetKey,
)
from router_contract.verdicts import DeploymentReport

KEY = DeploymentKey("default", "chat")
WALL = 1_800_000_000.0
POLICY = Policy(fresh=12.0, expire=300.0, span=60.0, longest=300.0)


def at(seconds: float) -> Instant:
    return Instant(seconds, WALL + seconds)


class HandClock:
    """Stands still until it is moved."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.moment = at(seconds)

    def now(self) -> Instant:
        return self.moment

    def set(self, seconds: float) -> None:
        self.moment = at(seconds)


class Scores:
    """Counts what the store tells its tally."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.reasons: list[str] = []

    def scraped(self, source: str, result: str, duration_seconds: float, body_bytes: int, parse: float | None) -> None:
        self.results.append(result)

    def discarded(self, reason: str, samples: int) -> None:
        self.reasons.append(reason)


def store(clock: HandClock | None = None, tally: Scores | None = None, policy: Policy = POLICY) -> Store:
    return Store(clock or HandClock(), policy, Limits(), tally or Scores())


def member(name: str, port: int = 8000, **more: Any) -> Member:
    host = more.pop("host", "10.0.0.1")
    address = Address(host=host, port=port)
    return Member(**({"uid": f"uid-{name}", "name": name, "host": host, "metrics": address, "api": address} | more))


def deployment(*names: str, software: str = "vllm", **more: Any) -> Deployment:
    """One role ``server`` with a member for each name, each a replica of its own."""
    members = more.pop("members", tuple(member(name, 8000 + place) for place, name in enumerate(names)))
    role = Role(
        name=more.pop("role", "server"),
        engine=software,
        engine_version=more.pop("version", None),
        desired=len(members),
        replicas=tuple(Replica(ordinal=place, members=(each,)) for place, each in enumerate(members)),
    )
    return Deployment(**({"key": KEY, "uid": "uid", "roles": (role,)} | more))


def routed(*names: str, routers: tuple[str, ...] = ("router",), software: str = "vllm_router") -> Deployment:
    declared = RouterDeclaration(
        name="router",
        software=software,
        desired=len(routers),
        members=tuple(member(name, 9000 + place) for place, name in enumerate(routers)),
    )
    return deployment(*names, router=declared)


def target(of: Deployment, name: str) -> Target:
    return next(each for each in of.targets() if each.member == name)


def key(name: str, port: int, component: Component = Component.ENGINE) -> TargetKey:
    return TargetKey(KEY, f"uid-{name}", component, port)


def ttft(counts: tuple[float, ...], total: float = 1.0, bounds: tuple[str, ...] = ("0.1", "1.0", "+Inf")) -> str:
    name = "vllm:time_to_first_token_seconds"
    lines = [f"# TYPE {name} histogram"]
    lines += [f'{name}_bucket{{engine="0",le="{b}"}} {c}' for b, c in zip(bounds, counts, strict=True)]
    lines += [f'{name}_count{{engine="0"}} {counts[-1]}', f'{name}_sum{{engine="0"}} {total}']
    return "\n".join(lines) + "\n"


def body(
    running: object = 2,
    tokens: object = 100,
    counts: tuple[float, ...] | None = (1.0, 2.0, 3.0),
    *,
    start: float | None = None,
    more: str = "",
    **histogram: Any,
) -> bytes:
    text = f'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine="0"}} {running}\n'
    text += f'# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{engine="0"}} {tokens}\n'
    text += ttft(counts, **histogram) if counts is not None else ""
    if start is not None:
        text += f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {start}\n"
    return (text + more).encode()


def due(_: TargetKey) -> tuple[float | None, bool]:
    return None, False


def take(into: Store, of: Deployment, name: str, data: bytes, seconds: float) -> None:
    into.on_body(target(of, name), data, "text/plain", at(seconds), 0.01)


def report(of: Store, seconds: float, which: DeploymentKey = KEY) -> DeploymentReport:
    made = of.report(which, at(seconds), due)
    assert made is not None
    return made


def one(of: DeploymentReport, name: str, signal: str) -> SignalValue:
    found = next(each for each in of.targets if each.status.member == name).of(signal)
    assert len(found) == 1, found
    return found[0]


def role_total(of: DeploymentReport, signal: str = "time-to-first-token", role: str = "server") -> Histogram | None:
    roles = {each.name: {value.signal: value for value in each.values} for each in of.roles}
    value = roles[role].get(signal)
    return None if value is None else value.running_histogram
