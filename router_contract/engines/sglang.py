"""The SGLang table.

Facts that shape it: the scheduler's series carry ``tp_rank``, ``pp_rank``, ``moe_ep_rank`` (each rank may repeat the
same requests) and, with more than one, ``dp_rank``; the tokenizer's carry only the model. Gauges are refreshed when the
scheduler logs. A fresh start is not zero: warm-up and health probes generate, and the scheduler's own token counters
move with them. The last batch's hit rate and throughput keep their value when idle and are not used.
"""

from router_contract.endpoints import EventsForm, EventsPath
from router_contract.signals import Kind
from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Matcher, Term, VersionSource, Vocabulary

_FAILED = "no recording has a failed transfer or handshake of that release"
_HICACHE = "the host and storage tiers need CUDA; none was run"
_ENCODER = "no encode engine was run"

_LOAD = (
    Term(signal="requests-running", name="sglang:num_running_reqs"),
    Term(signal="requests-waiting", name="sglang:num_queue_reqs"),
    Term(signal="requests-retracted", name="sglang:num_retracted_reqs", since="0.4.11"),
    Term(signal="requests-paused", name="sglang:num_paused_reqs", since="0.4.11"),
    Term(signal="kv-cache-usage", name="sglang:token_usage"),
    Term(signal="kv-capacity-blocks", name="sglang:num_pages", since="0.5.10"),
    Term(signal="kv-block-size", name="sglang:page_size", since="0.5.10"),
    Term(
        signal="kv-capacity-blocks",
        name="sglang:cache_config_info",
        value_label="num_pages",
        since="0.5.8",
        before="0.5.12",
        preference=1,
        unproven="0.5.9 was not run",
    ),
    Term(
        signal="kv-block-size",
        name="sglang:cache_config_info",
        value_label="page_size",
        since="0.5.8",
        before="0.5.12",
        preference=1,
        unproven="0.5.9 was not run",
    ),
    Term(
        signal="cache-config",
        name="sglang:cache_config_info",
        since="0.5.8",
        before="0.5.12",
        unproven="0.5.9 was not run",
    ),
    Term(signal="kv-capacity-tokens", name="sglang:max_total_num_tokens", since="0.5.5"),
    Term(signal="kv-used-tokens", name="sglang:kv_used_tokens", since="0.5.10"),
    Term(signal="kv-used-tokens", name="sglang:num_used_tokens", preference=1),
    Term(signal="kv-evictable-tokens", name="sglang:kv_evictable_tokens", since="0.5.10"),
    Term(signal="kv-available-tokens", name="sglang:kv_available_tokens", since="0.5.10"),
    Term(signal="context-length", name="sglang:context_len", since="0.5.10"),
)

_TOKENS = (
    Term(signal="prompt-tokens", name="sglang:prompt_tokens_total"),
    Term(signal="generation-tokens", name="sglang:generation_tokens_total"),
    Term(
        signal="preemptions",
        name="sglang:num_retracted_requests_total",
        since="0.5.5",
        unproven="nothing was retracted in a recording, and its type was not established by the scan",
    ),
    Term(signal="requests-finished", name="sglang:num_requests_total"),
    # Clients that go away count here. Same wire name under both declarations.
    Term(
        signal="aborted-requests",
        name="sglang:num_aborted_requests_total",
        since="0.4.7",
        absence=Absence.NOT_YET,
        paired="prompt-tokens",
    ),
    Term(signal="cached-tokens", name="sglang:cached_tokens_total", absence=Absence.NOT_YET, paired="prompt-tokens"),
    # Older releases have no such label: their samples say how much, not from where.
    Term(
        signal="cached-tokens-by-source",
        name="sglang:cached_tokens_total",
        match=(Matcher("cache_source", ("",), negate=True),),
        keep=(("source", "cache_source"),),
    ),
    # All four modes are seeded at 0; a tier that does not exist stays 0.
    Term(
        signal="effective-prefill-tokens",
        name="sglang:prefill_effective_tokens_total",
        keep=(("mode", "mode"),),
        since="0.5.18",
    ),
    Term(signal="realtime-tokens", name="sglang:realtime_tokens_total", keep=(("mode", "mode"),), since="0.5.5"),
    Term(signal="evicted-tokens", name="sglang:evicted_tokens_total", since="0.5.5", unproven=_HICACHE),
)

_LATENCY = (
    Term(signal="time-to-first-token", name="sglang:time_to_first_token_seconds"),
    Term(
        signal="inter-token-latency",
        name="sglang:inter_token_latency_seconds",
        absence=Absence.NOT_YET,
        paired="time-to-first-token",
    ),
    Term(signal="time-per-output-token", name="sglang:request_time_per_output_token_seconds", since="0.5.22"),
    Term(signal="request-duration", name="sglang:e2e_request_latency_seconds"),
    Term(signal="queue-time", name="sglang:queue_time_seconds", since="0.4.11"),
    Term(
        signal="prefill-time",
        name="sglang:per_stage_req_latency_seconds",
        match=(Matcher("stage", ("prefill_forward",)),),
        since="0.4.11",
    ),
    Term(signal="request-prompt-tokens", name="sglang:prompt_tokens_histogram"),
    Term(signal="request-generation-tokens", name="sglang:generation_tokens_histogram"),
)

_ADAPTERS_AND_DRAFTS = (
    Term(signal="lora-slots", name="sglang:lora_pool_slots_total", since="0.5.5"),
    Term(signal="lora-slots-used", name="sglang:lora_pool_slots_used", since="0.5.5"),
    Term(signal="lora-slots-usage", name="sglang:lora_pool_utilization", since="0.5.5"),
    Term(signal="speculative-accepted-length", name="sglang:spec_accept_length"),
    Term(signal="speculative-acceptance-rate", name="sglang:spec_accept_rate", since="0.4.11"),
    Term(
        signal="speculative-drafts",
        name="sglang:spec_verify_calls_total",
        since="0.5.13",
        unproven="no recording has a draft model",
    ),
)

_QUEUES = (
    Term(signal="prefill-bootstrap-waiting", name="sglang:num_prefill_bootstrap_queue_reqs", since="0.5.10"),
    Term(signal="prefill-prealloc-waiting", name="sglang:num_prefill_prealloc_queue_reqs", before="0.5.12"),
    Term(signal="prefill-inflight", name="sglang:num_prefill_inflight_queue_reqs", since="0.4.11"),
    Term(  # spelt so on the wire
        signal="prefill-inflight", name="sglang:num_prefill_infight_queue_reqs", before="0.5.4", preference=1
    ),
    Term(signal="decode-prealloc-waiting", name="sglang:num_decode_prealloc_queue_reqs"),
    Term(signal="decode-transfer-waiting", name="sglang:num_decode_transfer_queue_reqs"),
    Term(signal="decode-host-receive-waiting", name="sglang:num_decode_host_receive_queue_reqs", since="0.5.21"),
)


def _transfer(signal: str, name: str, first: str) -> tuple[Term, Term]:
    """A transfer family: a gauge of the last transfer up to 0.5.9, a histogram from 0.5.12, either in between."""
    return (
        Term(signal=signal, name=name, since="0.5.10"),
        Term(
            signal=signal,
            name=name,
            kind=Kind.GAUGE,
            since=first,
            before="0.5.12",
            preference=1,
            unproven="no prefill engine of a release with the gauge was run",
        ),
    )


_TRANSFER = (
    *_transfer("transfer-latency", "sglang:kv_transfer_latency_ms", "0.4.11"),
    *_transfer("transfer-speed", "sglang:kv_transfer_speed_gb_s", "0.4.11"),
    *_transfer("transfer-size", "sglang:kv_transfer_total_mb", "0.5.5"),
    *_transfer("transfer-bootstrap-time", "sglang:kv_transfer_bootstrap_ms", "0.5.5"),
    *_transfer("transfer-allocation-time", "sglang:kv_transfer_alloc_ms", "0.5.5"),
    # Absent until the first failure, and in engines without a transfer: a read transfer size tells them apart.
    Term(
        signal="transfer-failures",
        name="sglang:num_transfer_failed_reqs_total",
        absence=Absence.NOT_YET,
        paired="transfer-size",
    ),
    Term(
        signal="bootstrap-failures",
        name="sglang:num_bootstrap_failed_reqs_total",
        absence=Absence.NOT_YET,
        paired="transfer-size",
    ),
)

_TIERS = (
    Term(signal="host-cache-capacity-tokens", name="sglang:hicache_host_total_tokens", since="0.5.10"),
    Term(signal="host-cache-used-tokens", name="sglang:hicache_host_used_tokens", since="0.5.10"),
    Term(signal="offload-load-tokens", name="sglang:load_back_tokens_total", since="0.5.5", unproven=_HICACHE),
    Term(signal="offload-load-bytes", name="sglang:load_back_bytes_total", since="0.5.18", unproven=_HICACHE),
    Term(signal="offload-store-tokens", name="sglang:hicache_backup_tokens_total", since="0.5.18", unproven=_HICACHE),
    Term(signal="offload-store-bytes", name="sglang:hicache_backup_bytes_total", since="0.5.18", unproven=_HICACHE),
    Term(signal="storage-load-tokens", name="sglang:prefetched_tokens_total", since="0.4.11", unproven=_HICACHE),
    Term(signal="storage-store-tokens", name="sglang:backuped_tokens_total", since="0.4.11", unproven=_HICACHE),
    Term(
        signal="storage-hit-tokens",
        name="sglang:storage_prefetch_hit_tokens_total",
        since="0.5.20",
        unproven=_HICACHE,
    ),
)

_ENCODERS = (
    Term(signal="encoder-requests", name="sglang:encoder_requests_total", since="0.5.13", unproven=_ENCODER),
    Term(
        signal="encoder-requests-received",
        name="sglang:encoder_requests_received_total",
        since="0.5.13",
        unproven=_ENCODER,
    ),
    Term(
        signal="encoder-request-duration",
        name="sglang:encoder_request_e2e_latency_seconds",
        since="0.5.13",
        unproven=_ENCODER,
    ),
    Term(signal="encoder-queue-time", name="sglang:encoder_queue_wait_seconds", since="0.5.13", unproven=_ENCODER),
)

_IGNORED = """
sglang:func_latency_seconds sglang:gen_throughput sglang:cache_hit_rate sglang:num_grammar_queue_reqs
sglang:avg_request_queue_latency sglang:num_so_requests_total sglang:total_retracted_reqs
sglang:pending_prealloc_token_usage sglang:swa_token_usage sglang:num_running_reqs_offline_batch sglang:utilization
sglang:max_running_requests_under_SLO sglang:engine_startup_time sglang:engine_load_weights_time
sglang:grammar_compilation_time_seconds sglang:num_grammar_cache_hit_total sglang:num_grammar_aborted_total
sglang:num_grammar_total sglang:grammar_schema_count sglang:grammar_ebnf_size sglang:grammar_tree_traversal_time_avg
sglang:grammar_tree_traversal_time_max sglang:num_grammar_timeout_total sglang:is_cuda_graph
sglang:prefetch_pgs sglang:backup_pgs sglang:prefetch_bandwidth sglang:backup_bandwidth
sglang:startup_latency_breakdown_seconds_max sglang:mamba_usage sglang:decode_sum_seq_lens
sglang:num_retracted_input_tokens_total sglang:num_retracted_output_tokens_total sglang:cuda_graph_passes_total
sglang:eplb_balancedness sglang:eplb_gpu_physical_count sglang:new_token_ratio sglang:gpu_execution_seconds_total
sglang:dp_cooperation_realtime_tokens_total sglang:dp_cooperation_gpu_execution_seconds_total sglang:num_retractions
sglang:eviction_duration_seconds sglang:load_back_duration_seconds sglang:process_cpu_seconds_total
sglang:num_prefill_retries_total sglang:num_unique_running_routing_keys sglang:routing_key_running_req_count
sglang:routing_key_all_req_count sglang:prefill_delayer_wait_forward_passes sglang:prefill_delayer_wait_seconds
sglang:prefill_delayer_outcomes_total sglang:full_token_usage sglang:swa_available_tokens sglang:swa_evictable_tokens
sglang:swa_used_tokens sglang:mamba_available_tokens sglang:mamba_evictable_tokens sglang:mamba_used_tokens
sglang:fwd_occupancy sglang:num_streaming_sessions sglang:streaming_session_held_tokens
sglang:forward_execution_seconds_total sglang:estimated_flops_per_gpu_total sglang:estimated_read_bytes_per_gpu_total
sglang:estimated_write_bytes_per_gpu_total sglang:dp_cooperation_forward_execution_seconds_total
sglang:startup_available_gpu_memory_gb sglang:uncached_prompt_tokens_histogram sglang:get_loads_duration_seconds
sglang:weight_load_duration_seconds sglang:spec_num_steps sglang:spec_num_draft_tokens
sglang:encoder_cache_evictions_total sglang:encoder_cache_size_mb sglang:encoder_cache_entries
sglang:encoder_cache_hit_tokens_total sglang:encoder_cache_total_tokens_total sglang:encoder_cache_hit_files_total
sglang:encoder_cache_total_files_total sglang:encoder_mm_items_per_batch sglang:encoder_mm_items_per_request
sglang:encoder_preprocess_seconds sglang:encoder_model_forward_seconds sglang:encoder_transfer_seconds
sglang:spec_cap_length sglang:spec_block_accept_length sglang:max_total_num_tokens_swa sglang:weight_memory_usage_gb
sglang:kv_cache_memory_usage_gb sglang:graph_memory_usage_gb sglang:startup_time_seconds
sglang:startup_cuda_graph_time_seconds sglang:hicache_backup_duration_seconds sglang:hicache_dropped_tokens_total
sglang:hicache_backup_dropped_tokens_total sglang:hicache_prefetch_aux_alloc_failed_tokens_total
sglang:scheduler_idle_seconds_total sglang:scheduler_process_cpu_seconds_total sglang:scheduler_stage_seconds_total
sglang:storage_prefetch_unfulfilled_tokens_total sglang:storage_prefetch_deferred_tokens_total
sglang:num_decode_host_receive_reqs_total sglang:num_decode_deferred_kv_release_reqs
sglang:decode_deferred_kv_release_seconds sglang:decode_deferred_kv_release_total sglang:dp_attention_tokens_total
sglang:dp_attention_steps_total sglang:dp_attention_pairs_total sglang:dp_attention_token_imbalance_ratio
sglang:dp_attention_sync_wait_seconds sglang:http_requests_total sglang:http_responses_total sglang:http_requests_active
sglang:routing_keys_active sglang:prealloc_full_token_usage sglang:prealloc_swa_token_usage
sglang:hicache_host_mamba_used_states sglang:hicache_host_mamba_total_states
"""

VOCABULARY = Vocabulary(
    name="sglang",
    component=Component.ENGINE,
    aliases=("sgl",),
    labels=Labels(
        model=("model_name",), rank=("dp_rank",), copy=("tp_rank", "pp_rank", "moe_ep_rank"), process=("pid",)
    ),
    terms=(
        *_LOAD,
        *_TOKENS,
        *_LATENCY,
        *_ADAPTERS_AND_DRAFTS,
        *_QUEUES,
        *_TRANSFER,
        *_TIERS,
        *_ENCODERS,
    ),
    prefixes=("sglang:",),
    ignored=tuple(_IGNORED.split()),
    version_sources=(VersionSource("/server_info", "version"), VersionSource("/get_server_info", "version")),
    progress=("prompt-tokens", "generation-tokens"),
    self_moving=("effective-prefill-tokens", "realtime-tokens"),
    idle_levels=(
        "requests-running",
        "requests-waiting",
        "prefill-bootstrap-waiting",
        "prefill-inflight",
        "decode-prealloc-waiting",
        "decode-transfer-waiting",
    ),
    # No health path: it can generate.
    models_path="/v1/models",
    events_paths=(
        EventsPath("/server_info", EventsForm.PORT_BASE),
        EventsPath("/get_server_info", EventsForm.PORT_BASE),
    ),
)
