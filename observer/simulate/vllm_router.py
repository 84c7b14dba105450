"""A simulated vLLM router with the endpoints, series and blind spots of release 0.1.17."""

from __future__ import annotations

from collections.abc import Iterable

import aiohttp
import orjson
from aiohttp import web

from observer.simulate.node import reply
from observer.simulate.observer_endpoints import RegistryRevision, observer_row
from observer.simulate.router import NEEDED, Failed, SimulatedRouter
from observer.simulate.router_series import Ask
from observer.simulate.vllm_router_series import VllmRouterSeries
from observer.simulate.workers import DECODE, PREFILL, REGULAR, Worker, WorkerAddress, worker_row, workers_document

PLAIN_GETS = ("/v1/models", "/get_server_info", "/get_model_info", "/health_generate")


class VllmRouter(SimulatedRouter[VllmRouterSeries]):
    """vLLM router: counts successes only, shows a circuit only in its metrics, proxies unknown paths to a worker."""

    def make_series(self) -> VllmRouterSeries:
        """The metrics of a new process life."""
        self._revision = RegistryRevision()
        return VllmRouterSeries(self.spec.policy, pd=self.pd, seed=self.lives)

    async def register(self) -> None:
        """Once one worker is up every configured one is listed, dead ones as unhealthy; gauges exist before that."""
        if not self.workers.all:
            self.series.configured(self._configured_urls())
        up = {address.url: await self._probe(address.url) for address in self.configured}
        if not self.workers.all and not any(up.values()):
            return
        for address in tuple(self.configured):
            # A worker may have been added or taken out while the others were asked; the next round sees it.
            if address.url in up and not self.workers.known(address.url):
                await self._admit(address)
                for worker in self.workers:
                    if worker.address == address and not up[address.url]:
                        worker.healthy = False
                        self.series.checked(worker, success=False)

    async def inspect(self, address: WorkerAddress) -> tuple[str, dict[str, str], int]:
        """It asks a worker nothing; the number of ranks is configured."""
        _ = address
        return "unknown", {}, self.spec.dp_ranks

    def _configured_urls(self) -> list[str]:
        ranks = self.spec.dp_ranks if self.spec.dp_aware else 1
        if ranks == 1:
            return [address.url for address in self.configured]
        return [f"{address.url}@{rank}" for address in self.configured for rank in range(ranks)]

    async def _open_api(self) -> None:
        if self.workers.all:
            await self.api.start()

    async def infer(self, request: web.Request, ask: Ask) -> web.StreamResponse:
        """Regular mode with retries, or prefill then decode. A body without its prompt is refused here, uncounted."""
        if not any(ask.payload.get(name) for name in NEEDED[ask.endpoint]):
            return web.Response(status=422, text=f"missing field `{NEEDED[ask.endpoint][0]}`")
        if self.pd:
            return await self._pair(request, ask)
        self.series.tokens_missing("http")
        outcome = await self.with_retries(request, ask)
        if isinstance(outcome, Failed):
            return web.Response(status=outcome.status, body=outcome.body)
        if outcome.status < 400:
            self.series.succeeded(ask.route, self.since(ask))
        else:
            self.series.refused(ask.route)
        return outcome

    async def _pair(self, request: web.Request, ask: Ask) -> web.StreamResponse:
        prefill, decode = self.pick(PREFILL), self.pick(DECODE)
        if prefill is None or decode is None:
            self.series.add("pd_errors_total", error_type="server_selection")
            return web.Response(status=503, text="No available prefill/decode pair")
        self.series.pair_chosen(prefill, decode)
        for worker in (prefill, decode):
            worker.dispatched += 1
        first = ask.payload | {"max_tokens": 1, "stream": False, "kv_transfer_params": {"do_remote_decode": True}}
        second = ask.payload | {"kv_transfer_params": {"do_remote_prefill": True}}
        decode.active += 1
        self.series.decoding(decode)
        try:
            refused = await self._prefill(prefill, ask, orjson.dumps(first))
            if refused is not None:
                return refused
            self.series.observe("pd_decode_pending_seconds", self.since(ask))
            async with await self.call(decode, ask.route, orjson.dumps(second)) as upstream:
                self.series.prefilled(prefill, decode)
                if upstream.status >= 400:
                    self.series.add("pd_decode_errors_total", worker=decode.url)
                self.series.pair_ended(ask, self.since(ask))
                return await self.relay(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.series.add("pd_decode_errors_total", worker=decode.url)
            self.series.pair_ended(ask, self.since(ask))
            return web.Response(status=500, text=f"Request failed: {error}")
        finally:
            decode.active -= 1
            self.series.decoding(decode)

    async def _prefill(self, prefill: Worker, ask: Ask, body: bytes) -> web.Response | None:
        try:
            async with await self.call(prefill, ask.route, body) as answer:
                status, found = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            status, found = 500, f"Request failed: {error}".encode()
        if status < 400:
            return None
        self.series.add("pd_prefill_errors_total", worker=prefill.url)
        self.series.pair_ended(ask, self.since(ask))
        return web.Response(status=status, body=found)

    def routes(self) -> Iterable[web.RouteDef]:
        """Worker listing and control, probes, and the proxy for everything else."""
        observer = [web.get("/observer/endpoints", self._observer)] if self.spec.observer_endpoints else []
        return (
            *observer,
            web.get("/workers", self._workers),
            web.get("/list_workers", self._list_workers),
            web.get("/get_loads", self._get_loads),
            web.get("/health", self._health),
            web.get("/readiness", self._readiness),
            web.get("/liveness", self._liveness),
            web.post("/add_worker", self._add_worker),
            web.post("/remove_worker", self._remove_worker),
            *(web.get(path, self._plain) for path in PLAIN_GETS),
            web.get("/{path:.*}", self._proxy),
        )

    async def _observer(self, _: web.Request) -> web.Response:
        if self.view_lost:
            return web.Response(status=503)
        rows = [observer_row(worker) for worker in self.workers]
        return reply(self._revision.document(rows, int(self.started_at * 1000), self.clock.now().wall))

    async def _workers(self, _: web.Request) -> web.Response:
        if self.view_lost:
            return web.Response(status=503, text="unavailable")
        return reply(
            workers_document([worker_row(worker, "Http", identity=False) for worker in self.workers.shuffled()])
        )

    async def _list_workers(self, _: web.Request) -> web.Response:
        if self.view_lost:
            return web.Response(status=503, text="unavailable")
        return reply({"urls": [worker.url for worker in self.workers.shuffled()]})

    async def _get_loads(self, _: web.Request) -> web.Response:
        if self.pd:
            faults = [
                f"Failed to get load from {w.kind} {w.url}"
                for w in (*self.workers.of(PREFILL), *self.workers.of(DECODE))
            ]
            return reply({"loads": {}, "errors": faults})
        return reply({"workers": [{"worker": w.url, "load": -1} for w in self.workers]})

    async def _health(self, _: web.Request) -> web.Response:
        down = [worker.url for worker in self.workers if not worker.healthy]
        if down:
            listed = ", ".join(f'"{url}"' for url in down)
            return web.Response(status=503, text=f"Unhealthy servers: [{listed}]")
        return web.Response(text="All servers healthy")

    async def _readiness(self, _: web.Request) -> web.Response:
        def count(kind: str) -> dict[str, int]:
            workers = self.workers.of(kind)
            return {"healthy": sum(worker.healthy for worker in workers), "total": len(workers)}

        if self.pd:
            prefill, decode = count(PREFILL), count(DECODE)
            ready = prefill["healthy"] and decode["healthy"]
            status = "ready" if ready else "not_ready"
            return reply({"status": status, "prefill": prefill, "decode": decode}, status=200 if ready else 503)
        found = count(REGULAR)
        if not found["healthy"]:
            reason = "no healthy workers available"
            return reply({"status": "not_ready", "reason": reason, "total_workers": found["total"]}, status=503)
        return reply({"status": "ready", "healthy_workers": found["healthy"], "total_workers": found["total"]})

    async def _liveness(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _add_worker(self, request: web.Request) -> web.Response:
        url = request.query.get("url", "")
        if not url:
            return web.Response(status=400, text="Worker URL required. Provide 'url' query parameter")
        self.add_worker(WorkerAddress(url))
        await self.register()
        return web.Response(text=f"Successfully added worker: {url}")

    async def _remove_worker(self, request: web.Request) -> web.Response:
        url = request.query.get("url", "")
        self.remove_worker(url)
        return web.Response(text=f"Worker '{url}' removed from service")

    async def _get(self, worker: Worker, path: str) -> web.Response:
        async with self.session.get(worker.address.url + path) as answer:
            kind = answer.headers.get("Content-Type", "text/plain")
            return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": kind})

    async def _plain(self, request: web.Request) -> web.Response:
        worker = next((w for w in self.workers.shuffled() if w.healthy and not w.circuit_open), None)
        if worker is None:
            return web.Response(status=503, text="No workers are currently available")
        try:
            return await self._get(worker, request.path)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return web.Response(status=500, text=f"Request failed: {error}")

    async def _proxy(self, request: web.Request) -> web.Response:
        if self.pd:
            return web.Response(status=405, text="Only POST requests are supported for transparent proxy")
        begun = self.clock.now().mono
        worker = self.pick(REGULAR)
        if worker is None:
            self.series.add("request_errors_total", route=request.path, error_type="no_available_workers")
            return web.Response(status=503, text="No available workers")
        self.series.decided(worker)
        try:
            response = await self._get(worker, request.path)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            response = web.Response(status=502, text=f"Backend request failed: {error}")
        self.record(worker, success=response.status < 500)
        if response.status < 400:
            self.series.succeeded(request.path, self.clock.now().mono - begun)
        else:
            self.series.add("request_errors_total", route=request.path, error_type="backend_error")
        return response
