"""A listener that exposes the families that are planned and not made yet, with their labels and example values."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from dashboards.planned import PLANNED


def exposition() -> str:
    lines = []
    for name, family in PLANNED.items():
        lines.append(f"# TYPE {name} {family.type}")
        for values in itertools.product(*family.labels.values()):
            pairs = ",".join(f'{label}="{value}"' for label, value in zip(family.labels, values, strict=True))
            lines.append(f"{name}{{{pairs}}} 1")
    # The condition that goes with an analysis: three series, of which one is 1.
    for status in ("true", "false", "unknown"):
        where = f'namespace="demo",deployment="chat",condition="CanaryAnalysis",status="{status}"'
        lines.append(f"modeldeployment_status_condition{{{where}}} {int(status == 'unknown')}")
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def listener() -> AsyncIterator[str]:
    """The address, without a scheme, that exposes them."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=exposition())

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()
