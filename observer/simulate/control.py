"""The simulator's own HTTP API: what runs, the truth about it, and scenarios by name."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from observer.simulate.fleet import SimulatedFleet
from observer.simulate.node import Listener, reply
from observer.simulate.scenarios import SCENARIOS


def control_routes(fleet: SimulatedFleet) -> Iterable[web.RouteDef]:
    """``GET /simulate``, ``GET /simulate/fleet``, ``GET /simulate/scenarios``, ``POST /simulate/scenarios/{name}``.

    The last takes ``?deployment=NAME`` and answers 404 for a name it does not know and 409 where it cannot apply.
    """

    async def state(_: web.Request) -> web.Response:
        return reply(fleet.state())

    async def document(_: web.Request) -> web.Response:
        return reply(fleet.document())

    async def scenarios(_: web.Request) -> web.Response:
        return reply({scenario.name: scenario.description for scenario in SCENARIOS.values()})

    async def apply(request: web.Request) -> web.Response:
        try:
            affected = await fleet.apply(request.match_info["name"], request.query.get("deployment"))
        except KeyError as unknown:
            return reply({"error": unknown.args[0]}, 404)
        except ValueError as impossible:
            return reply({"error": str(impossible)}, 409)
        return reply({"scenario": fleet.scenario, "deployments": affected})

    return (
        web.get("/simulate", state),
        web.get("/simulate/fleet", document),
        web.get("/simulate/scenarios", scenarios),
        web.post("/simulate/scenarios/{name}", apply),
    )


def control_listener(fleet: SimulatedFleet, host: str = "127.0.0.1", port: int = 0) -> Listener:
    """A listener of its own for the control API, not started yet."""

    def app() -> web.Application:
        made = web.Application()
        made.add_routes(control_routes(fleet))
        return made

    return Listener(app, host, port)
