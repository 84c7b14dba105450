"""What a vLLM engine's metrics show of its work, in the families of the recorded release."""

from __future__ import annotations

from observer.clock import Clock
from observer.simulate.core import Work
from observer.simulate.exposition import Style
from observer.simulate.spec import EngineSpec
from observer.simulate.tables import ProcessMetrics, load

HTTP_IGNORED = ("/health", "/metrics", "/ping", "/version", "/load")


class VllmMeter:
    """The metrics of one vLLM process life."""

    def __init__(self, spec: EngineSpec, clock: Clock, pid: int) -> None:
        self._spec = spec
        self._clock = clock
        self._levels_known = False
        now = clock.now().wall
        style = Style.MULTI if spec.multiprocess else Style.SINGLE
        self.metrics = ProcessMetrics(
            load(f"vllm-0.32.0-{style}"),
            style,
            ranks=tuple(((("engine", str(r)), ("model_name", spec.model)),) for r in range(spec.dp_size)),
            model=(("model_name", spec.model),),
            pid=str(pid),
            started=now,
            info={
                "block_size": str(spec.block_size),
                "effective_attention_block_size": str(spec.block_size),
                "num_gpu_blocks": str(spec.num_blocks),
                "kv_cache_size_tokens": str(spec.num_blocks * spec.block_size),
                "num_gpu_blocks_override": "None",
                "kv_cache_max_concurrency": str(spec.num_blocks * spec.block_size / spec.max_model_len),
            },
        )
        if not spec.multiprocess:
            self.metrics.put("process_start_time_seconds", now)

    def _now(self) -> float:
        return self._clock.now().wall

    def levels(self, rank: int, running: int, waiting: int, used_blocks: int) -> None:
        """See `Meter.levels`. In multiprocess mode these gauges exist only from here on."""
        m = self.metrics
        if not self._levels_known:
            self._levels_known = True
            for other in range(self._spec.dp_size):
                self.levels(other, 0, 0, 0)
        m.put("vllm:num_requests_running", running, rank=rank)
        m.put("vllm:num_requests_waiting", waiting, rank=rank)
        m.put("vllm:num_requests_waiting_by_reason", waiting, rank=rank, reason="capacity")
        m.put("vllm:num_requests_waiting_by_reason", 0, rank=rank, reason="deferred")
        m.put("vllm:kv_cache_usage_perc", min(1.0, used_blocks / self._spec.num_blocks), rank=rank)

    def prefilled(self, work: Work) -> None:
        """See `Meter.prefilled`."""
        m, rank, length = self.metrics, work.rank, len(work.prompt)
        transferred = length - work.cached if work.transferred else 0
        m.add("vllm:prefix_cache_queries_total", length, rank=rank)
        m.add("vllm:prefix_cache_hits_total", work.cached, rank=rank)
        m.add("vllm:prompt_tokens_total", length, rank=rank)
        m.add("vllm:prompt_tokens_cached_total", work.cached, rank=rank)
        m.add("vllm:prompt_tokens_cached_by_source_total", work.cached, rank=rank, source="device")
        sources = {
            "local_compute": length - work.cached - transferred,
            "local_cache_hit": work.cached,
            "external_kv_transfer": transferred,
        }
        for source, tokens in sources.items():
            m.add("vllm:prompt_tokens_by_source_total", tokens, rank=rank, source=source)
        if transferred:
            m.add("vllm:external_prefix_cache_queries_total", transferred, rank=rank)
            m.add("vllm:external_prefix_cache_hits_total", transferred, rank=rank)
        m.add("vllm:generation_tokens_total", rank=rank)
        m.observe("vllm:iteration_tokens_total", length - work.cached + 1, rank=rank)
        m.observe("vllm:time_to_first_token_seconds", work.first_token - work.arrived, rank=rank)

    def decoded(self, work: Work, tokens: int, seconds: float) -> None:
        """See `Meter.decoded`."""
        m, rank = self.metrics, work.rank
        m.add("vllm:generation_tokens_total", tokens, rank=rank)
        m.observe("vllm:iteration_tokens_total", 1, tokens, rank=rank)
        m.observe("vllm:inter_token_latency_seconds", seconds / tokens, tokens, rank=rank)

    def finished(self, work: Work) -> None:
        """See `Meter.finished`."""
        m, rank = self.metrics, work.rank
        m.add("vllm:request_success_total", rank=rank, finished_reason=work.reason)
        decode = work.ended - work.first_token
        observations = {
            "vllm:request_prompt_tokens": len(work.prompt),
            "vllm:request_generation_tokens": work.generated,
            "vllm:request_max_num_generation_tokens": work.generated,
            "vllm:request_params_n": 1,
            "vllm:request_params_max_tokens": work.max_tokens,
            "vllm:request_time_per_output_token_seconds": decode / max(work.generated - 1, 1),
            "vllm:e2e_request_latency_seconds": work.ended - work.arrived,
            "vllm:request_queue_time_seconds": work.started - work.arrived,
            "vllm:request_inference_time_seconds": work.ended - work.started,
            "vllm:request_prefill_time_seconds": work.first_token - work.started,
            "vllm:request_decode_time_seconds": decode,
            "vllm:request_num_preemptions": 0,
            "vllm:request_prefill_kv_computed_tokens": len(work.prompt) - work.cached,
        }
        for name, value in observations.items():
            m.observe(name, value, rank=rank)

    def encoded(self, work: Work) -> None:
        """See `Meter.encoded`: multimodal cache queries, no token series."""
        m, rank = self.metrics, work.rank
        m.add("vllm:mm_cache_queries_total", rank=rank)
        m.add("vllm:mm_cache_hits_total", work.cached > 0, rank=rank)
        m.add("vllm:prompt_tokens_total", len(work.prompt), rank=rank)
        m.add("vllm:request_success_total", rank=rank, finished_reason="stop")
        m.observe("vllm:iteration_tokens_total", len(work.prompt), rank=rank)
        m.observe("vllm:e2e_request_latency_seconds", work.ended - work.arrived, rank=rank)

    def aborted(self, work: Work) -> None:
        """A client that goes away moves no counter of vLLM, not even ``abort``."""

    def answered(self, method: str, path: str, status: int, seconds: float, sent: int, received: int) -> None:
        """Book one HTTP answer as the instrumentation of the API server does. Sizes are in bytes."""
        if path in HTTP_IGNORED or status == 404:
            return
        m, now = self.metrics, self._now()
        m.add("http_requests_total", now=now, handler=path, method=method, status=f"{status // 100}xx")
        m.observe("http_request_size_bytes", received, now=now, handler=path)
        m.observe("http_response_size_bytes", sent, now=now, handler=path)
        m.observe("http_request_duration_highr_seconds", seconds)
        m.observe("http_request_duration_seconds", seconds, now=now, handler=path, method=method)
