"""The series of the llm-d endpoint picker under their old and new names, and the moments they move at."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, pstdev
from urllib.parse import urlsplit

from observer.simulate.exposition import Registry, Style
from observer.simulate.router_series import Ask, RouterSeries
from observer.simulate.workers import Worker

TTFT_BOUNDS = ("0.05", "0.1", "0.5", "+Inf")
PRIORITY = "0"
FAIRNESS = "default"
NAMESPACE = "default"
PRODUCER = "inflight-load-producer"
COUNTERS = (
    "inference_objective_request_total", "inference_objective_request_error_total", "llm_d_epp_request_total",
    "llm_d_epp_request_error_total", "inference_extension_scheduler_attempts_total",
    "llm_d_epp_scheduler_attempts_total", "llm_d_inference_scheduler_disagg_decision_total",
    "llm_d_epp_disagg_decision_total",
)  # fmt: skip
GAUGES = (
    "inference_pool_average_kv_cache_utilization", "inference_pool_average_queue_size",
    "inference_pool_average_running_requests", "inference_pool_per_pod_queue_size", "inference_pool_ready_pods",
    "llm_d_epp_average_kv_cache_utilization", "llm_d_epp_average_queue_size", "llm_d_epp_average_running_requests",
    "llm_d_epp_std_dev_queue_size", "llm_d_epp_per_endpoint_queue_size", "llm_d_epp_ready_endpoints",
    "inference_objective_running_requests", "llm_d_epp_request_running", "llm_d_epp_inflight_requests",
    "llm_d_epp_info",
)  # fmt: skip


@dataclass(frozen=True)
class PodLoad:
    """What the picker scraped from one Pod, ``at`` monotonic seconds."""

    at: float
    waiting: float
    running: float
    usage: float


class EndpointPickerSeries(RouterSeries):
    """Both families at once, label vectors absent before the first request, averages stale with no fresh Pod."""

    def __init__(self, pool: str, *, old_names_only: bool = False) -> None:
        registry = Registry(Style.GO)
        self._hidden = "llm_d_epp_" if old_names_only else None
        for name in COUNTERS:
            registry.declare(name, "counter")
        for name in GAUGES:
            registry.declare(name, "gauge")
        registry.declare("llm_d_epp_request_ttft_seconds", "histogram", bounds=TTFT_BOUNDS)
        super().__init__(registry, "")
        self._pool = pool
        self.put("llm_d_epp_info", 1, build_ref="v0.10.0", commit="simulated")

    def add(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """See `RouterSeries.add`; a release before the new names has none of them."""
        if self._hidden is None or not name.startswith(self._hidden):
            super().add(name, amount, **labels)

    def put(self, name: str, value: float, /, **labels: str) -> None:
        """See `RouterSeries.put`; a release before the new names has none of them."""
        if self._hidden is None or not name.startswith(self._hidden):
            super().put(name, value, **labels)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """See `RouterSeries.observe`; a release before the new names has none of them."""
        if self._hidden is None or not name.startswith(self._hidden):
            super().observe(name, value, **labels)

    def pool(self, fresh: list[PodLoad], queues: dict[str, float]) -> None:
        """Pool gauges. Averages keep their last values when no Pod is fresh; queues are of the whole datastore."""
        self.put("inference_pool_ready_pods", len(fresh), name=self._pool)
        self.put("llm_d_epp_ready_endpoints", len(fresh), name=self._pool)
        for family in ("inference_pool_per_pod_queue_size", "llm_d_epp_per_endpoint_queue_size"):
            self.registry.families[family].series.clear()
            self.registry.families[family].moved = True
        for endpoint, size in sorted(queues.items()):
            self.put("inference_pool_per_pod_queue_size", size, model_server_pod=endpoint, name=self._pool)
            self.put("llm_d_epp_per_endpoint_queue_size", size, model_server_endpoint=endpoint, name=self._pool)
        if not fresh:
            return
        averages = {
            "kv_cache_utilization": fmean(load.usage for load in fresh),
            "queue_size": fmean(load.waiting for load in fresh),
            "running_requests": fmean(load.running for load in fresh),
        }
        for name, value in averages.items():
            self.put(f"inference_pool_average_{name}", value, name=self._pool)
            self.put(f"llm_d_epp_average_{name}", value, name=self._pool)
        self.put("llm_d_epp_std_dev_queue_size", pstdev(load.waiting for load in fresh), name=self._pool)

    @staticmethod
    def _new(ask: Ask) -> dict[str, str]:
        return {
            "fairness_id": FAIRNESS,
            "model_name": ask.model,
            "priority": PRIORITY,
            "target_model_name": ask.model,
        }

    def arrived(self, ask: Ask) -> None:
        """A request is counted and running."""
        self.add(
            "inference_objective_request_total", model_name=ask.model, priority=PRIORITY, target_model_name=ask.model
        )
        self.add("llm_d_epp_request_total", **self._new(ask))
        self.add("inference_objective_running_requests", model_name=ask.model)
        self.add("llm_d_epp_request_running", **self._new(ask))

    def ended(self, ask: Ask) -> None:
        """A request is no longer running."""
        self.add("inference_objective_running_requests", -1.0, model_name=ask.model)
        self.add("llm_d_epp_request_running", -1.0, **self._new(ask))

    def refused(self, ask: Ask, code: str) -> None:
        """The picker itself failed a request."""
        self.add(
            "inference_objective_request_error_total",
            error_code=code,
            model_name=ask.model,
            target_model_name=ask.model,
        )
        self.add("llm_d_epp_request_error_total", error_code=code, **self._new(ask))

    def decided(self, ask: Ask, kinds: list[str]) -> None:
        """How a request was split over roles."""
        decision = "-".join(kinds) if len(kinds) > 1 else "decode-only"
        self.add("llm_d_inference_scheduler_disagg_decision_total", decision_type=decision, model_name=ask.model)
        self.add(
            "llm_d_epp_disagg_decision_total",
            decision_type=decision,
            model_name=ask.model,
            plugin_name="disagg-profile-handler",
            plugin_type="disagg-profile-handler",
        )

    def scheduled(self, ask: Ask, worker: Worker) -> None:
        """An endpoint was picked."""
        port = str(urlsplit(worker.address.url).port or "")
        tail = {"port": port, "status": "success", "target_model_name": ask.model}
        pod = worker.address.pod
        self.add("inference_extension_scheduler_attempts_total", namespace=NAMESPACE, pod_name=pod, **tail)
        self.add("llm_d_epp_scheduler_attempts_total", endpoint_name=pod, namespace=NAMESPACE, **tail)

    def in_flight(self, pod: str, active: int) -> None:
        """Requests in flight to one endpoint."""
        self.put(
            "llm_d_epp_inflight_requests",
            active,
            endpoint_name=pod,
            fairness_id=FAIRNESS,
            namespace=NAMESPACE,
            priority=PRIORITY,
            producer_name=PRODUCER,
        )

    def answered(self, ask: Ask, seconds: float) -> None:
        """The first byte of an answer arrived."""
        labels = self._new(ask)
        tail = labels.pop("target_model_name")
        self.observe(
            "llm_d_epp_request_ttft_seconds",
            seconds,
            **labels,
            streaming=str(ask.streaming).lower(),
            target_model_name=tail,
        )
