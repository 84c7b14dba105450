"""KV-event publishers for the engines of a fleet: who publishes, on which ports, and faults as scenarios."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from observer.clock import Clock
from observer.simulate.deployment import HookFactory, SimulatedDeployment
from observer.simulate.kv_engine import FAULTS, KvEventPublishers
from observer.simulate.kv_hook import KvEventHook, NoKvEvents
from observer.simulate.kv_publisher import PublisherOptions
from observer.simulate.spec import RoleSpec
from router_contract.targets import RoleKind

SILENT_KINDS = (RoleKind.DECODE, RoleKind.ENCODE)


def publishing(clock: Clock) -> HookFactory:
    """Every engine publishes, one socket pair a rank, except in roles that hold no prefix of their own."""

    def hook(name: str, role: RoleSpec) -> KvEventHook:
        if role.kind in SILENT_KINDS:
            return NoKvEvents()
        spec = role.engine
        options = PublisherOptions(topic=f"kv@{name}@{spec.model}")
        return KvEventPublishers.for_engine(spec.dp_size, lambda: clock.now().wall, options)

    return hook


def publishers_of(deployment: SimulatedDeployment) -> list[KvEventPublishers]:
    """The publishers of a deployment's running engines."""
    return [engine.hook for engine in deployment.engines() if isinstance(engine.hook, KvEventPublishers)]


def publishes(deployment: SimulatedDeployment) -> bool:
    """Whether a deployment has an engine that publishes."""
    return bool(publishers_of(deployment))


def kv_effect(fault: str) -> Callable[[SimulatedDeployment], Awaitable[None]]:
    """The effect of a KV-event fault: it hits the first publishing engine of the deployment."""

    async def effect(deployment: SimulatedDeployment) -> None:
        FAULTS[fault](publishers_of(deployment)[0])

    return effect


def heal(deployment: SimulatedDeployment) -> None:
    """End every KV-event fault."""
    for publisher in publishers_of(deployment):
        FAULTS["kv-heal"](publisher)
