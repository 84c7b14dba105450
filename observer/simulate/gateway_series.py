"""The series of the SGLang gateway (smg 0.3.2) and the moments they move at."""

from __future__ import annotations

from itertools import pairwise

from observer.simulate.breaker import NAMES, Circuit
from observer.simulate.exposition import Registry, Style
from observer.simulate.router_series import RETRYABLE, Ask, RouterSeries
from observer.simulate.vllm_router_series import DURATION_BOUNDS
from observer.simulate.workers import DECODE, PREFILL, Worker

COUNTERS = (
    "http_requests_total", "http_responses_total", "router_requests_total", "router_request_errors_total", "router_upstream_responses_total",
    "worker_selection_total", "worker_cb_outcomes_total", "worker_cb_transitions_total", "worker_errors_total",
    "worker_retries_total", "worker_retries_exhausted_total", "worker_health_checks_total",
)  # fmt: skip
PASSED_ON = {400: "validation_error", 404: "no_workers"}
GAUGES = (
    "worker_pool_size", "worker_health", "worker_cb_state", "worker_requests_active", "worker_cb_consecutive_failures",
    "worker_cb_consecutive_successes", "http_connections_active", "http_inflight_request_age_count",
)  # fmt: skip
AGE_EDGES = ("0", "30", "60", "180", "300", "600", "1200", "3600", "7200", "14400", "28800", "86400", "+Inf")
MODE = "http"


class GatewaySeries(RouterSeries):
    """Counts requests at arrival, answers by attempt, and marks what left with -1."""

    def __init__(self, policy: str, decode_policy: str, *, pd: bool, seed: int) -> None:
        registry = Registry(Style.RUST, seed)
        for name in COUNTERS:
            registry.declare(f"smg_{name}", "counter")
        for name in GAUGES:
            registry.declare(f"smg_{name}", "gauge")
        for name in ("router_request_duration_seconds", "http_request_duration_seconds"):
            registry.declare(f"smg_{name}", "histogram", bounds=DURATION_BOUNDS)
        registry.declare("smg_worker_retry_backoff_seconds", "summary")
        super().__init__(registry, "smg_")
        self._policy = policy
        self._decode_policy = decode_policy
        self._pd = pd
        self.put("http_connections_active", 0)

    @property
    def _backend(self) -> str:
        return "pd" if self._pd else "regular"

    def ages(self, in_flight: int) -> None:
        """The in-flight age gauge: a family with an ``le`` label that is no histogram."""
        for above, below in pairwise(AGE_EDGES):
            self.put("http_inflight_request_age_count", in_flight if above == "0" else 0, gt=above, le=below)

    def registered(self, worker: Worker, workers: list[Worker]) -> None:
        """Pool size, health and circuit appear."""
        self.put("worker_health", 1, worker=worker.url)
        self.put("worker_cb_state", 0, worker=worker.url)
        self._pools(worker, workers)

    def removed(self, worker: Worker, workers: list[Worker]) -> None:
        """Series of a removed worker never go away: health and circuit read -1."""
        self.put("worker_health", -1, worker=worker.url)
        self.put("worker_cb_state", -1, worker=worker.url)
        for name in ("worker_cb_consecutive_failures", "worker_cb_consecutive_successes"):
            self.put(name, 0, worker=worker.url)
        self._pools(worker, workers)

    def _pools(self, worker: Worker, workers: list[Worker]) -> None:
        pool = [other for other in workers if other.kind == worker.kind and other.model == worker.model]
        # In prefill/decode mode the real program loses a registration race: it reads 1 with two prefill workers.
        size = min(len(pool), 1) if self._pd and worker.kind == PREFILL else len(pool)
        self.put("worker_pool_size", size, worker_type=worker.kind, connection_mode=MODE, model=worker.model)

    def checked(self, worker: Worker, *, success: bool) -> None:
        """Each check counts; the gauge follows the thresholds."""
        result = "success" if success else "failure"
        self.add("worker_health_checks_total", worker_type=worker.kind, result=result)
        self.put("worker_health", int(worker.healthy), worker=worker.url)

    def arrived(self, ask: Ask) -> None:
        """Every inference request counts when it arrives, whatever becomes of it."""
        self.add(
            "router_requests_total",
            router_type=MODE,
            backend_type=self._backend,
            connection_mode=MODE,
            model=ask.model,
            endpoint=ask.endpoint,
            streaming=str(ask.streaming).lower(),
        )

    def selected(self, worker: Worker, ask: Ask) -> None:
        """Selection counts; active requests show only with cache_aware or in prefill/decode mode."""
        policy = self._decode_policy if worker.kind == DECODE else self._policy
        self.add(
            "worker_selection_total",
            worker_type=worker.kind,
            connection_mode=MODE,
            model=ask.model,
            policy=policy,
        )
        self.released(worker)

    def released(self, worker: Worker) -> None:
        """Active requests as they are now."""
        if self._pd or self._policy == "cache_aware":
            self.put("worker_requests_active", worker.active, worker=worker.url)

    def upstream(self, worker: Worker, ask: Ask, status: int, code: str, seconds: float) -> None:
        """An attempt's answer, failed ones as worker errors too."""
        self.add("router_upstream_responses_total", router_type=MODE, status_code=str(status), error_code=code)
        if status >= 500:
            self.failed(worker, "timeout" if status == 504 else "backend_error")
        elif status < 400:
            self.answered(ask, seconds)
        if status >= 400 and status not in RETRYABLE:
            self.passed_on(ask, status)

    def passed_on(self, ask: Ask, status: int) -> None:
        """An error that is not retried: the only thing the gateway's error counter shows."""
        self.add(
            "router_request_errors_total",
            router_type=MODE,
            backend_type=self._backend,
            connection_mode=MODE,
            model=ask.model,
            endpoint=ask.endpoint,
            error_type="backend_error" if status >= 500 else PASSED_ON.get(status, "internal_error"),
        )

    def failed(self, worker: Worker, kind: str = "backend_error") -> None:
        """A worker's request failed."""
        self.add("worker_errors_total", worker_type=worker.kind, connection_mode=MODE, error_type=kind)

    def answered(self, ask: Ask, seconds: float) -> None:
        """How long a request took until its answer began."""
        self.observe(
            "router_request_duration_seconds",
            seconds,
            router_type=MODE,
            backend_type=self._backend,
            connection_mode=MODE,
            model=ask.model,
            endpoint=ask.endpoint,
        )

    def outcome(self, worker: Worker, *, success: bool) -> None:
        """Circuit outcome, state and run lengths."""
        self.add("worker_cb_outcomes_total", worker=worker.url, outcome="success" if success else "failure")
        self._circuit(worker)

    def _circuit(self, worker: Worker) -> None:
        self.put("worker_cb_state", worker.breaker.state, worker=worker.url)
        self.put("worker_cb_consecutive_failures", worker.breaker.consecutive_failures, worker=worker.url)
        self.put("worker_cb_consecutive_successes", worker.breaker.consecutive_successes, worker=worker.url)

    def transition(self, worker: Worker, left: Circuit) -> None:
        """Every transition counts, leaving open too."""
        self.add("worker_cb_transitions_total", worker=worker.url, from_=NAMES[left], to=NAMES[worker.breaker.state])
        self._circuit(worker)

    def nobody(self, ask: Ask) -> None:
        """An attempt without any worker counts as an answer of 503."""
        _ = ask
        self.add(
            "router_upstream_responses_total", router_type=MODE, status_code="503", error_code="no_available_workers"
        )

    def retry(self, ask: Ask, attempt: int, pause: float) -> None:
        """In prefill/decode mode both roles count the same retry."""
        for kind in self._retried():
            self.add("worker_retries_total", worker_type=kind, endpoint=ask.endpoint)
        self.observe("worker_retry_backoff_seconds", pause, attempt=str(attempt))

    def exhausted(self, ask: Ask) -> None:
        """In prefill/decode mode both roles count the same exhaustion."""
        for kind in self._retried():
            self.add("worker_retries_exhausted_total", worker_type=kind, endpoint=ask.endpoint)

    def _retried(self) -> tuple[str, ...]:
        return (PREFILL, DECODE) if self._pd else ("regular",)

    def http(self, method: str, path: str, status: int, code: str, seconds: float) -> None:
        """One request on the API port, probes included."""
        self.add("http_requests_total", method=method, path=path)
        self.add("http_responses_total", status_code=str(status), error_code=code)
        self.observe("http_request_duration_seconds", seconds, method=method, path=path)
