"""Scenarios by name: what each one shows, and its effect on a deployment that runs normally."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from observer.simulate.deployment import SimulatedDeployment, SimulatedReplica
from observer.simulate.kv_fleet import kv_effect, publishes

Effect = Callable[[SimulatedDeployment], Awaitable[None]]
COLD_SECONDS = 6.0
SLOW_LOAD_SECONDS = 90.0
LOOP_SECONDS = 3.0
DRAIN_SECONDS = 3.0
SATURATION_FACTOR = 10.0
KV_FAULTS = {
    "kv-lose": "the next three batches are lost on the way",
    "kv-reorder": "the next two batches arrive in the other order",
    "kv-restart": "the publisher restarts without a word",
    "kv-silent": "nothing is published any more",
    "kv-clear": "every block is said to be gone",
    "kv-encoding": "events are written in the other encoding",
    "kv-connect": "the publisher connects outwards, so nothing listens",
}


@dataclass(frozen=True)
class Scenario:
    """One scenario. ``everywhere`` ones act on every deployment unless one is named; ``needs`` limits the choice."""

    name: str
    description: str
    effect: Effect
    everywhere: bool = False
    needs: Callable[[SimulatedDeployment], bool] = lambda _: True


async def _steady(_: SimulatedDeployment) -> None:
    """Restoring before every scenario has already done it."""


async def _idle(deployment: SimulatedDeployment) -> None:
    deployment.clients.rate = 0.0


async def _restart(deployment: SimulatedDeployment) -> None:
    await deployment.replica().engine.restart()


async def _hang(deployment: SimulatedDeployment) -> None:
    deployment.replica().engine.behaviour.hang()


async def _stall(deployment: SimulatedDeployment) -> None:
    deployment.replica().engine.behaviour.stall()


async def _down(deployment: SimulatedDeployment) -> None:
    await deployment.replica().engine.die()


def _reload(seconds: float) -> Effect:
    async def effect(deployment: SimulatedDeployment) -> None:
        engine = deployment.replica().engine
        await engine.die()
        engine.load_seconds, engine.warm_seconds = seconds, seconds / 3 if engine.spec.software == "sglang" else 0.0
        await engine.start()

    return effect


async def _slow(deployment: SimulatedDeployment) -> None:
    deployment.replica().engine.behaviour.slowdown = SATURATION_FACTOR


async def _saturation(deployment: SimulatedDeployment) -> None:
    for engine in deployment.engines():
        engine.behaviour.slowdown = SATURATION_FACTOR
    deployment.clients.rate = max(20.0, deployment.spec.rate * SATURATION_FACTOR)


async def _errors(deployment: SimulatedDeployment) -> None:
    for engine in deployment.engines():
        engine.behaviour.error_rate = 0.05


async def _circuit_open(deployment: SimulatedDeployment) -> None:
    deployment.replica().engine.behaviour.error_rate = 1.0


async def _split_brain(deployment: SimulatedDeployment) -> None:
    deployment.routers[-1].cut_off.add(deployment.replica().engine.url)


async def _keeps_dead(deployment: SimulatedDeployment) -> None:
    for router in deployment.routers:
        router.checks_health = router.breaks_circuits = False
    await deployment.replica().engine.die()


async def _view_lost(deployment: SimulatedDeployment) -> None:
    for router in deployment.routers:
        router.view_lost = True


async def _router_down(deployment: SimulatedDeployment) -> None:
    await deployment.routers[-1].die()


async def _router_restart(deployment: SimulatedDeployment) -> None:
    await deployment.routers[0].restart()


def _gang(deployment: SimulatedDeployment) -> SimulatedReplica | None:
    return next((replica for replica in deployment.replicas if replica.role.size > 1), None)


async def _half_gang(deployment: SimulatedDeployment) -> None:
    replica = _gang(deployment)
    if replica is not None:
        replica.missing.add(1)
        replica.engine.behaviour.hang()


async def _restart_loop(deployment: SimulatedDeployment) -> None:
    engine = deployment.replica().engine

    async def loop() -> None:
        while True:
            await engine.restart()
            await asyncio.sleep(LOOP_SECONDS)
            await engine.die()
            await asyncio.sleep(LOOP_SECONDS)

    deployment.run(loop(), "restart loop")


async def _retirement(deployment: SimulatedDeployment) -> None:
    replica = deployment.replicas[-1]
    replica.retiring = True
    for router in deployment.routers:
        router.remove_worker(replica.engine.url)

    async def drain() -> None:
        await asyncio.sleep(DRAIN_SECONDS)
        await replica.engine.die()

    deployment.run(drain(), "drain")


async def _rollout(deployment: SimulatedDeployment) -> None:
    async def replace() -> None:
        for old in list(deployment.replicas):
            old.replacing = True
            ordinal = max(replica.ordinal for replica in deployment.replicas) + 1
            await deployment.add_replica(old.role, ordinal, revision="2")
            await asyncio.sleep(LOOP_SECONDS)
            await deployment.remove_replica(old)

    deployment.run(replace(), "rollout")


def _canary(error_rate: float) -> Effect:
    """The last replica is a canary of revision 2."""

    async def effect(deployment: SimulatedDeployment) -> None:
        replica = deployment.replicas[-1]
        replica.revision, deployment.canary = "2", True
        replica.engine.behaviour.error_rate = error_rate

    return effect


async def _replaced(deployment: SimulatedDeployment) -> None:
    replica = deployment.replica()
    await replica.engine.die()
    replica.generation += 1
    base = replica.engine.name.split("-g")[0]
    replica.engine.name = f"{base}-g{replica.generation}"
    await replica.engine.start()


async def _cache_cleared(deployment: SimulatedDeployment) -> None:
    for engine in deployment.engines():
        engine.core.reset_cache(at_next_step=engine.spec.software == "vllm")


def _routed(deployment: SimulatedDeployment) -> bool:
    return bool(deployment.routers)


def _two_routers(deployment: SimulatedDeployment) -> bool:
    return len(deployment.routers) > 1


def _several(deployment: SimulatedDeployment) -> bool:
    return bool(deployment.routers) and len(deployment.replicas) > 1 and len(deployment.spec.roles) == 1


def _has_gang(deployment: SimulatedDeployment) -> bool:
    return _gang(deployment) is not None


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("steady", "Everything serves and clients send at their usual rate.", _steady, everywhere=True),
        Scenario("idle", "Nobody sends anything: counters stand, nothing is wrong.", _idle, everywhere=True),
        Scenario("engine-restart", "One engine restarts on its port: counters fall to 0.", _restart),
        Scenario("engine-hang", "One engine answers /health while its metrics are frozen with work running.", _hang),
        Scenario("engine-stall", "One engine makes no progress; its queue grows and its counters stand.", _stall),
        Scenario("engine-down", "One engine's process is gone and its port refuses.", _down),
        Scenario("engine-slow", "One engine takes ten times as long for everything.", _slow),
        Scenario("cold-start", "One engine starts again and loads for some seconds.", _reload(COLD_SECONDS)),
        Scenario("slow-load", "One engine starts again and loads for a minute and a half.", _reload(SLOW_LOAD_SECONDS)),
        Scenario("saturation", "More requests than slots: queues grow, progress goes on.", _saturation),
        Scenario("errors-5pct", "One inference call in twenty is answered 500.", _errors, everywhere=True),
        Scenario("circuit-open", "One engine fails every call until the routers open its circuit.", _circuit_open, needs=_routed),
        Scenario("router-split-brain", "One router cannot reach a worker that the other selects.", _split_brain, needs=_two_routers),
        Scenario("router-keeps-dead-worker", "An engine is gone and the routers go on selecting it.", _keeps_dead, needs=_routed),
        Scenario("router-view-lost", "Routers serve but answer no question about their workers.", _view_lost, needs=_routed),
        Scenario("router-down", "One router's process is gone.", _router_down, needs=_routed),
        Scenario("router-restart", "One router restarts: its counters and series begin anew.", _router_restart, needs=_routed),
        Scenario("half-gang", "A replica of two members has lost one; the other hangs.", _half_gang, needs=_has_gang),
        Scenario("restart-loop", "One engine starts and dies again and again.", _restart_loop),
        Scenario("retirement", "One replica leaves the routers, drains and ends.", _retirement, needs=_routed),
        Scenario("rollout", "Replicas are replaced one by one by a new revision on new ports.", _rollout),
        Scenario("canary", "One replica is a canary of a new revision, and an analysis judges it.", _canary(0.0), needs=_several),
        Scenario("canary-errors", "As canary, and the canary answers two calls in five with 500.", _canary(0.4), needs=_several),
        Scenario("worker-replaced-same-ip", "Another process takes an engine's place at the same address.", _replaced),
        *(
            Scenario(fault, f"One engine's KV events: {told}.", kv_effect(fault), needs=publishes)
            for fault, told in KV_FAULTS.items()
        ),
        Scenario("cache-cleared", "Every engine forgets its prefix cache.", _cache_cleared, everywhere=True),
    )
}  # fmt: skip
