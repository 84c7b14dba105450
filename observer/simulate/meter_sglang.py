"""What an SGLang engine's metrics show of its work, in the families of the recorded release.

Scheduler-side series carry the rank labels (``dp_rank`` only with more than one), tokenizer-side series the model's.
"""

from __future__ import annotations

from observer.clock import Clock
from observer.simulate.core import Work
from observer.simulate.exposition import Labels, Style
from observer.simulate.spec import EngineSpec
from observer.simulate.tables import ProcessMetrics, load
from router_contract.targets import RoleKind

ENGINE_TYPES = {RoleKind.PREFILL.value: "prefill", RoleKind.DECODE.value: "decode"}
BYTES_PER_TOKEN = 131_072
START_UP_CALLS = (
    ("GET", "/health", 503),
    ("GET", "/model_info", 200),
    ("POST", "/generate", 200),
    ("POST", "/freeze_gc", 200),
    ("GET", "/health", 200),
)


def rank_labels(spec: EngineSpec, engine_type: str) -> tuple[tuple[Labels, ...], ...]:
    """The base label sets of every data-parallel rank; with ``tensor_rank_copies`` one for each tensor rank."""
    copies = range(spec.tp_size if spec.tensor_rank_copies else 1)
    return tuple(
        tuple(
            (
                ("engine_type", engine_type),
                ("model_name", spec.model),
                ("moe_ep_rank", "0"),
                ("pp_rank", "0"),
                ("tp_rank", str(tensor)),
                *((("dp_rank", str(rank)),) if spec.dp_size > 1 else ()),
            )
            for tensor in copies
        )
        for rank in range(spec.dp_size)
    )


class SglangMeter:
    """The metrics of one SGLang process life."""

    def __init__(self, spec: EngineSpec, clock: Clock, pid: int, kind: str) -> None:
        self._spec = spec
        self._clock = clock
        engine_type = ENGINE_TYPES.get(kind, "unified")
        self._disaggregated = engine_type != "unified"
        self.metrics = ProcessMetrics(
            load("sglang-0.5.23-multi"),
            Style.MULTI,
            ranks=rank_labels(spec, engine_type),
            model=(("engine_type", engine_type), ("model_name", spec.model)),
            pid=str(pid),
            started=clock.now().wall,
            disaggregated=self._disaggregated,
        )
        tokens = spec.num_blocks * spec.block_size
        for rank in range(spec.dp_size):
            self.metrics.put("sglang:max_total_num_tokens", tokens, rank=rank)
            self.metrics.put("sglang:page_size", spec.block_size, rank=rank)
            self.metrics.put("sglang:num_pages", spec.num_blocks, rank=rank)
            self.metrics.put("sglang:context_len", spec.max_model_len, rank=rank)
            self.metrics.put("sglang:kv_available_tokens", tokens, rank=rank)
            self.metrics.put("sglang:kv_evictable_tokens", 0, rank=rank)
        if spec.dp_size > 1:
            self.metrics.add("sglang:process_cpu_seconds_total", 1.0, component="data_parallel_controller")

    def levels(self, rank: int, running: int, waiting: int, used_blocks: int) -> None:
        """See `Meter.levels`."""
        m = self.metrics
        total = self._spec.num_blocks * self._spec.block_size
        used = min(used_blocks * self._spec.block_size, total)
        m.put("sglang:num_running_reqs", running, rank=rank)
        m.put("sglang:num_queue_reqs", waiting, rank=rank)
        m.put("sglang:token_usage", used / total, rank=rank)
        m.put("sglang:full_token_usage", used / total, rank=rank)
        m.put("sglang:num_used_tokens", used, rank=rank)
        m.put("sglang:kv_used_tokens", used, rank=rank)
        m.put("sglang:kv_available_tokens", total - used, rank=rank)

    def prefilled(self, work: Work) -> None:
        """See `Meter.prefilled`."""
        m, rank, length = self.metrics, work.rank, len(work.prompt)
        computed = length - work.cached
        streaming = str(work.streaming).lower()
        m.add("sglang:prefill_effective_tokens_total", computed, rank=rank, mode="input")
        m.add("sglang:prefill_effective_tokens_total", work.cached, rank=rank, mode="device_hit")
        m.add("sglang:realtime_tokens_total", computed, rank=rank, mode="prefill_compute")
        if work.cached:
            m.add("sglang:realtime_tokens_total", work.cached, rank=rank, mode="prefill_cache")
            m.add("sglang:cached_tokens_total", work.cached, cache_source="device")
        m.add("sglang:cuda_graph_passes_total", rank=rank, mode="prefill_none")
        m.put("sglang:cache_hit_rate", work.cached / length, rank=rank)
        m.observe("sglang:time_to_first_token_seconds", work.first_token - work.arrived, is_streaming=streaming)
        m.observe("sglang:queue_time_seconds", work.started - work.arrived, rank=rank)
        stages = {"request_process": 0.00004, "prefill_forward": work.first_token - work.started}
        for stage, seconds in stages.items():
            m.observe("sglang:per_stage_req_latency_seconds", seconds, rank=rank, stage=stage)
        if self._disaggregated:
            self._transferred(rank, length)

    def _transferred(self, rank: int, tokens: int) -> None:
        megabytes = tokens * BYTES_PER_TOKEN / 2**20
        milliseconds = 1.0 + megabytes / 10.0
        observations = {
            "sglang:kv_transfer_total_mb": megabytes,
            "sglang:kv_transfer_latency_ms": milliseconds,
            "sglang:kv_transfer_speed_gb_s": megabytes / 1024 / (milliseconds / 1000),
            "sglang:kv_transfer_bootstrap_ms": 1.5,
            "sglang:kv_transfer_alloc_ms": 0.4,
        }
        for name, value in observations.items():
            self.metrics.observe(name, value, rank=rank)

    def decoded(self, work: Work, tokens: int, seconds: float) -> None:
        """See `Meter.decoded`."""
        m, rank = self.metrics, work.rank
        m.add("sglang:realtime_tokens_total", tokens, rank=rank, mode="decode")
        m.add("sglang:cuda_graph_passes_total", tokens, rank=rank, mode="decode_none")
        m.put("sglang:gen_throughput", tokens / seconds if seconds > 0 else 0.0, rank=rank)
        m.put("sglang:decode_sum_seq_lens", len(work.prompt) + work.generated, rank=rank)
        if work.streaming:
            m.observe("sglang:inter_token_latency_seconds", seconds / tokens, tokens)

    def finished(self, work: Work) -> None:
        """See `Meter.finished`."""
        m = self.metrics
        streaming = str(work.streaming).lower()
        m.add("sglang:num_requests_total", is_streaming=streaming)
        m.add("sglang:prompt_tokens_total", len(work.prompt), is_streaming=streaming)
        m.add("sglang:generation_tokens_total", work.generated, is_streaming=streaming)
        m.observe("sglang:e2e_request_latency_seconds", work.ended - work.arrived, is_streaming=streaming)
        per_token = (work.ended - work.first_token) / max(work.generated - 1, 1)
        m.observe("sglang:request_time_per_output_token_seconds", per_token, is_streaming=streaming)
        m.observe("sglang:prompt_tokens_histogram", len(work.prompt))
        m.observe("sglang:uncached_prompt_tokens_histogram", len(work.prompt) - work.cached)
        m.observe("sglang:generation_tokens_histogram", work.generated)

    def encoded(self, work: Work) -> None:
        """See `Meter.encoded`: an encoder server counts its requests and prompt tokens."""
        m = self.metrics
        m.add("sglang:num_requests_total", is_streaming="false")
        m.add("sglang:prompt_tokens_total", len(work.prompt), is_streaming="false")

    def aborted(self, work: Work) -> None:
        """See `Meter.aborted`: SGLang counts a client that goes away."""
        _ = work
        self.metrics.add("sglang:num_aborted_requests_total")

    def warmed(self, prompt_tokens: int, generated: int) -> None:
        """The warm-up generation of every rank, seen by the first scrape; the health check adds a token of its own."""
        m = self.metrics
        for method, path, status in START_UP_CALLS:
            self.answered(method, path, status, 0.0, 0, 0)
        for rank in range(self._spec.dp_size):
            m.add("sglang:prefill_effective_tokens_total", prompt_tokens + 1, rank=rank, mode="input")
            m.add("sglang:realtime_tokens_total", prompt_tokens + 1, rank=rank, mode="prefill_compute")
            m.add("sglang:realtime_tokens_total", generated - 1, rank=rank, mode="decode")
            m.put("sglang:kv_evictable_tokens", self._spec.block_size, rank=rank)
            m.add("sglang:num_requests_total", is_streaming="false")
            m.add("sglang:prompt_tokens_total", prompt_tokens, is_streaming="false")
            m.add("sglang:generation_tokens_total", generated, is_streaming="false")
            m.observe("sglang:prompt_tokens_histogram", prompt_tokens)
            m.observe("sglang:uncached_prompt_tokens_histogram", prompt_tokens)
            m.observe("sglang:generation_tokens_histogram", generated)
            m.observe("sglang:time_to_first_token_seconds", 0.26, is_streaming="false")
            m.observe("sglang:e2e_request_latency_seconds", 0.31, is_streaming="false")
            m.observe("sglang:request_time_per_output_token_seconds", 0.0065, is_streaming="false")

    def answered(self, method: str, path: str, status: int, seconds: float, sent: int, received: int) -> None:
        """Book one HTTP answer; unlike vLLM every path counts, probes and unknown ones too."""
        _ = sent, received
        m = self.metrics
        m.add("sglang:http_requests_total", endpoint=path, method=method)
        m.add("sglang:http_responses_total", endpoint=path, method=method, status_code=str(status))
        if path == "/v1/loads":
            m.observe("sglang:get_loads_duration_seconds", seconds)
        m.add("sglang:http_requests_active", 0.0, endpoint=path, method=method)
