"""The series of the vLLM router 0.1.17 and the moments they move at."""

from __future__ import annotations

from observer.simulate.breaker import NAMES, Circuit
from observer.simulate.exposition import Registry, Style
from observer.simulate.router_series import Ask, RouterSeries
from observer.simulate.workers import Worker

DURATION_BOUNDS = (
    "0.001", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15", "30", "45", "60",
    "90", "120", "180", "240", "+Inf",
)  # fmt: skip
COUNTERS = (
    "requests_total", "request_errors_total", "retries_total", "retries_exhausted_total", "processed_requests_total",
    "policy_decisions_total", "cb_outcomes_total", "cb_state_transitions_total", "prefix_routing_decisions_total",
    "kv_routing_inputs_total", "kv_placement_lookups_total", "pd_requests_total", "pd_prefill_requests_total",
    "pd_decode_requests_total", "pd_prefill_errors_total", "pd_decode_errors_total", "pd_errors_total",
)  # fmt: skip
GAUGES = (
    "active_workers", "worker_health", "running_requests", "cb_state", "pd_active_decode_requests",
    "pd_pending_decode_requests", "pd_active_prefill_tokens", "pd_prefill_occupancy", "pd_unknown_prefill_requests",
)  # fmt: skip
LOAD_POLICIES = ("power_of_two", "cache_aware", "kv_aware")
TOKEN_POLICIES = ("cache_aware", "kv_aware")
RANK = "aggregate"


class VllmRouterSeries(RouterSeries):
    """Counts successes only; failed calls show in retries; a circuit shows nowhere else than here."""

    def __init__(self, policy: str, *, pd: bool, seed: int) -> None:
        registry = Registry(Style.RUST, seed)
        for name in COUNTERS:
            registry.declare(f"vllm_router_{name}", "counter")
        for name in GAUGES:
            registry.declare(f"vllm_router_{name}", "gauge")
        for name in ("generate_duration_seconds", "retry_backoff_duration_seconds", "pd_request_duration_seconds"):
            registry.declare(f"vllm_router_{name}", "histogram", bounds=DURATION_BOUNDS)
        registry.declare("vllm_router_pd_decode_pending_seconds", "summary")
        super().__init__(registry, "vllm_router_")
        self._policy = policy
        self._pd = pd

    def configured(self, urls: list[str]) -> None:
        """At start, before any worker is up: every configured worker counts as active and healthy."""
        for url in urls:
            self.put("worker_health", 1, worker=url)
        if not self._pd:
            self.put("active_workers", len({url.split("@")[0] for url in urls}))

    def registered(self, worker: Worker, workers: list[Worker]) -> None:
        """Health and the number of hosts."""
        self.put("worker_health", int(worker.healthy), worker=worker.url)
        self.removed(worker, workers)

    def removed(self, worker: Worker, workers: list[Worker]) -> None:
        """The number of hosts falls; the health series of a removed worker stays as it was."""
        _ = worker
        if not self._pd:
            self.put("active_workers", len({other.address.url for other in workers}))

    def checked(self, worker: Worker, *, success: bool) -> None:
        """The health gauge follows the thresholds, not the single check."""
        _ = success
        self.put("worker_health", int(worker.healthy), worker=worker.url)

    def selected(self, worker: Worker, ask: Ask) -> None:
        """Decisions move at selection; running only with policies that look at load."""
        _ = ask
        self.decided(worker)
        self.released(worker)

    def decided(self, worker: Worker) -> None:
        """A policy chose a worker, for a call or for a proxied probe."""
        if self._policy != "kv_aware":
            self.add("processed_requests_total", worker=worker.url)
            self.add("policy_decisions_total", policy=self._policy, worker=worker.url)
        if self._policy in TOKEN_POLICIES:
            self.add("prefix_routing_decisions_total", policy=self._policy, stage=worker.kind, outcome="missing_tokens")
        if self._policy == "kv_aware":
            self.add("kv_placement_lookups_total", result="missing_tokens")

    def released(self, worker: Worker) -> None:
        """Running as it is now."""
        if self._policy in LOAD_POLICIES and not self._pd:
            self.put("running_requests", worker.active, worker=worker.url)

    def tokens_missing(self, transport: str) -> None:
        """A policy that needs tokens could not get them rendered."""
        if self._policy in TOKEN_POLICIES:
            self.add("kv_routing_inputs_total", transport=transport, result="render_unavailable")

    def outcome(self, worker: Worker, *, success: bool) -> None:
        """Circuit outcome and state."""
        self.add("cb_outcomes_total", worker=worker.url, outcome="success" if success else "failure")
        self.put("cb_state", worker.breaker.state, worker=worker.url)

    def transition(self, worker: Worker, left: Circuit) -> None:
        """Leaving open is visible only in the state."""
        self.put("cb_state", worker.breaker.state, worker=worker.url)
        if left is not Circuit.OPEN:
            to = NAMES[worker.breaker.state]
            self.add("cb_state_transitions_total", worker=worker.url, from_=NAMES[left], to=to)

    def nobody(self, ask: Ask) -> None:
        """An attempt without any available worker."""
        self.add("request_errors_total", route=ask.route, error_type="no_available_workers")

    def retry(self, ask: Ask, attempt: int, pause: float) -> None:
        """Retries are the only trace of failed calls."""
        self.add("retries_total", route=ask.route)
        self.observe("retry_backoff_duration_seconds", pause, attempt=str(attempt))

    def exhausted(self, ask: Ask) -> None:
        """The last attempt failed."""
        self.add("retries_exhausted_total", route=ask.route)

    def succeeded(self, route: str, seconds: float) -> None:
        """A call or a proxied probe was answered well."""
        self.add("requests_total", route=route)
        self.observe("generate_duration_seconds", seconds)

    def pair_chosen(self, prefill: Worker, decode: Worker) -> None:
        """A prefill and a decode worker were chosen; their load gauges appear."""
        self.tokens_missing("pd_decode")
        self.tokens_missing("pd_decode")
        for worker in (prefill, decode):
            self.decided(worker)
        for name in ("pd_active_prefill_tokens", "pd_prefill_occupancy", "pd_unknown_prefill_requests"):
            self.put(name, 0, worker=prefill.url, rank=RANK)
        self.put("pd_pending_decode_requests", 0, worker=decode.url, rank=RANK)

    def decoding(self, decode: Worker) -> None:
        """Active decodes of a worker as they are now."""
        self.put("pd_active_decode_requests", decode.active, worker=decode.url, rank=RANK)

    def refused(self, route: str) -> None:
        """A worker answered 4xx: no success, and an error that is not the service's."""
        self.add("request_errors_total", route=route, error_type="non_retryable_error")

    def prefilled(self, prefill: Worker, decode: Worker) -> None:
        """Prefill is done and decode begins."""
        self.add("pd_prefill_requests_total", worker=prefill.url)
        self.add("pd_decode_requests_total", worker=decode.url)

    def pair_ended(self, ask: Ask, seconds: float) -> None:
        """A pair answered, well or not: calls that failed or were refused count here too."""
        self.add("pd_requests_total", route=ask.route)
        self.observe("pd_request_duration_seconds", seconds, route=ask.route)
