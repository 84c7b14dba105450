"""The simulated fleet: start it, change it by scenario while it runs, stop it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from observer.clock import Clock, SystemClock
from observer.simulate.background import Background
from observer.simulate.deployment import HookFactory, SimulatedDeployment
from observer.simulate.document import analysis_documents, fleet_document
from observer.simulate.kv_fleet import heal
from observer.simulate.scenarios import SCENARIOS
from observer.simulate.spec import FleetSpec, demo_fleet


class SimulatedFleet:
    """Every deployment of a description, in this process, on free loopback ports.

    ``hooks`` makes the KV-event publisher of an engine from its name and role; without it nothing is published.
    """

    def __init__(
        self, spec: FleetSpec | None = None, *, clock: Clock | None = None, hooks: HookFactory | None = None
    ) -> None:
        self.spec = spec if spec is not None else demo_fleet()
        self.clock = clock if clock is not None else SystemClock()
        self.background = Background()
        self.scenario = "steady"
        self.deployments = {
            deployment.name: SimulatedDeployment(
                deployment, self.clock, self.background, seed=self.spec.seed * 100 + index, hooks=hooks
            )
            for index, deployment in enumerate(self.spec.deployments)
        }

    async def start(self) -> None:
        """Start everything. Returns when engines without a loading time serve and routers have registered them."""
        await self.background.start()
        complete = False
        try:
            for deployment in self.deployments.values():
                await deployment.start()
            complete = True
        finally:
            if not complete:
                await self.stop()

    async def stop(self) -> None:
        """Stop everything and give all ports back."""
        await self.background.stop()
        for deployment in self.deployments.values():
            await deployment.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def apply(self, name: str, deployment: str | None = None) -> list[str]:
        """Put the fleet back to normal, then let a scenario act. Returns the names of the deployments it acts on.

        Raises `KeyError` for an unknown scenario or deployment, `ValueError` where the scenario cannot apply.
        """
        scenario = SCENARIOS.get(name)
        if scenario is None:
            raise KeyError(f"scenario: found {name!r}, want one of {', '.join(SCENARIOS)}")
        if deployment is not None and deployment not in self.deployments:
            raise KeyError(f"deployment: found {deployment!r}, want one of {', '.join(self.deployments)}")
        able = [each for each in self.deployments.values() if scenario.needs(each)]
        chosen = [each for each in able if deployment in (None, each.spec.name)]
        if not chosen:
            raise ValueError(f"scenario {name!r} cannot apply to {deployment or 'this fleet'}: {scenario.description}")
        for each in self.deployments.values():
            heal(each)
            await each.restore()
        affected = chosen if scenario.everywhere else chosen[:1]
        for each in affected:
            await scenario.effect(each)
        self.scenario = name
        return [each.spec.name for each in affected]

    def document(self) -> dict[str, Any]:
        """The ``Fleet`` document that the observer reads, as of now."""
        return fleet_document(self.deployments.values())

    def documents(self) -> list[dict[str, Any]]:
        """The ``Fleet`` document, and an analysis of each canary there is now."""
        return [self.document(), *analysis_documents(self.deployments.values())]

    def write_document(self, path: Path) -> None:
        """Write the documents for the observer, in one step so that nobody reads half of them. JSON is YAML."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        text = b"---\n".join(orjson.dumps(each, option=options) for each in self.documents())
        beside = path.with_name(f".{path.name}.new")
        beside.write_bytes(text)
        beside.replace(path)

    def state(self) -> dict[str, Any]:
        """The scenario in force and the truth about every deployment."""
        truth = {name: deployment.truth() for name, deployment in self.deployments.items()}
        return {"scenario": self.scenario, "deployments": truth}
