"""The vLLM table: its own builds and vLLM-Ascend, which exports the same names.

Facts that shape it: counters are declared without ``_total`` and exposed with it; every series carries ``engine`` (a
data-parallel rank) and ``model_name``; old and new names stand side by side in some releases and count once. With more
than one API server process there is no ``process_*`` family, and level gauges have a TYPE line and no sample until the
first traffic: absent, not 0. Usage falls to 0 when idle although the prefix cache is full.
"""

from router_contract.endpoints import EventsForm, EventsPath
from router_contract.signals import Kind
from router_contract.targets import Component
from router_contract.vocabulary import Labels, Term, VersionSource, Vocabulary

_CONNECTOR = "a KV connector that needs a GPU or RDMA; none was run"
_SPECULATIVE = "no recording has a draft model"
_LORA = "no recording serves adapters"
_OFFLOAD = "needs the offloading connector; none was run"

_LOAD = (
    Term(signal="requests-running", name="vllm:num_requests_running"),
    Term(signal="requests-waiting", name="vllm:num_requests_waiting"),
    Term(
        signal="requests-waiting-by-reason",
        name="vllm:num_requests_waiting_by_reason",
        keep=(("reason", "reason"),),
        since="0.19.2",
    ),
    Term(signal="kv-cache-usage", name="vllm:kv_cache_usage_perc", since="0.9.1"),
    Term(signal="kv-cache-usage", name="vllm:gpu_cache_usage_perc", before="0.12.0", preference=1),
    Term(signal="kv-capacity-blocks", name="vllm:cache_config_info", value_label="num_gpu_blocks"),
    Term(signal="kv-block-size", name="vllm:cache_config_info", value_label="block_size"),
    Term(signal="cache-config", name="vllm:cache_config_info"),
    Term(signal="sleep-state", name="vllm:engine_sleep_state", keep=(("state", "sleep_state"),), since="0.10.3"),
    Term(
        signal="kv-fetch-requests",
        name="vllm:num_requests_kv_fetch_by_stage",
        keep=(("stage", "stage"),),
        since="0.30.1",
    ),
    Term(signal="process-start-time", name="process_start_time_seconds"),
)

_TOKENS = (
    Term(signal="prompt-tokens", name="vllm:prompt_tokens_total"),
    Term(signal="generation-tokens", name="vllm:generation_tokens_total"),
    Term(signal="iteration-tokens", name="vllm:iteration_tokens_total"),
    Term(signal="preemptions", name="vllm:num_preemptions_total"),
    # Clients that go away do not count as reason `abort`.
    Term(signal="requests-finished", name="vllm:request_success_total", keep=(("reason", "finished_reason"),)),
    Term(
        signal="corrupted-requests",
        name="vllm:corrupted_requests_total",
        since="0.10.3",
        unproven="behind a flag that no recording sets",
    ),
    Term(
        signal="admission-rejections",
        name="vllm:admission_rejections_total",
        keep=(("reason", "reason"),),
        since="0.30.1",
    ),
    Term(signal="prefix-cache-queries", name="vllm:prefix_cache_queries_total", since="0.9.1"),
    Term(signal="prefix-cache-queries", name="vllm:gpu_prefix_cache_queries_total", before="0.12.0", preference=1),
    Term(signal="prefix-cache-hits", name="vllm:prefix_cache_hits_total", since="0.9.1"),
    Term(signal="prefix-cache-hits", name="vllm:gpu_prefix_cache_hits_total", before="0.12.0", preference=1),
    # Both exist at 0 without a connector: 0 queries is not a missed cache.
    Term(signal="external-cache-queries", name="vllm:external_prefix_cache_queries_total", since="0.10.3"),
    Term(signal="external-cache-hits", name="vllm:external_prefix_cache_hits_total", since="0.10.3"),
    Term(signal="multimodal-cache-queries", name="vllm:mm_cache_queries_total", since="0.10.3"),
    Term(signal="multimodal-cache-hits", name="vllm:mm_cache_hits_total", since="0.10.3"),
    Term(
        signal="prompt-tokens-by-source",
        name="vllm:prompt_tokens_by_source_total",
        keep=(("source", "source"),),
        since="0.14.2",
    ),
    Term(signal="cached-tokens", name="vllm:prompt_tokens_cached_total", since="0.14.2"),
    Term(
        signal="cached-tokens-by-source",
        name="vllm:prompt_tokens_cached_by_source_total",
        keep=(("source", "source"),),
        since="0.30.1",
    ),
)

_LATENCY = (
    Term(signal="time-to-first-token", name="vllm:time_to_first_token_seconds"),
    Term(signal="inter-token-latency", name="vllm:inter_token_latency_seconds", since="0.10.1"),
    # The older name of the same measure, in spite of its words; hidden behind a flag from 0.12.
    Term(signal="inter-token-latency", name="vllm:time_per_output_token_seconds", before="0.16.0", preference=1),
    Term(signal="time-per-output-token", name="vllm:request_time_per_output_token_seconds", since="0.10.3"),
    Term(signal="request-duration", name="vllm:e2e_request_latency_seconds"),
    Term(signal="queue-time", name="vllm:request_queue_time_seconds"),
    Term(signal="inference-time", name="vllm:request_inference_time_seconds"),
    Term(signal="prefill-time", name="vllm:request_prefill_time_seconds"),
    Term(signal="decode-time", name="vllm:request_decode_time_seconds"),
    Term(signal="request-prompt-tokens", name="vllm:request_prompt_tokens"),
    Term(signal="request-generation-tokens", name="vllm:request_generation_tokens"),
    Term(signal="request-preemptions", name="vllm:request_num_preemptions", since="0.28.1"),
)

_ADAPTERS_AND_DRAFTS = (
    Term(signal="lora-requests", name="vllm:lora_requests_info", unproven=_LORA),
    # The scan of old releases is blind to how these were declared, so no bound is set: presence decides.
    Term(signal="speculative-drafts", name="vllm:spec_decode_num_drafts_total", unproven=_SPECULATIVE),
    Term(signal="speculative-draft-tokens", name="vllm:spec_decode_num_draft_tokens_total", unproven=_SPECULATIVE),
    Term(
        signal="speculative-accepted-tokens",
        name="vllm:spec_decode_num_accepted_tokens_total",
        unproven=_SPECULATIVE,
    ),
    Term(
        signal="speculative-accepted-by-position",
        name="vllm:spec_decode_num_accepted_tokens_per_pos_total",
        keep=(("position", "position"),),
        unproven=_SPECULATIVE,
    ),
)

# Bounds of connector families: only some releases' connector modules were looked at.
_TRANSFER = (
    Term(
        signal="transfer-latency",
        name="vllm:nixl_xfer_time_seconds",
        scale=1e3,
        since="0.10.3",
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-latency",
        name="vllm:mooncake_xfer_time_seconds",
        scale=1e3,
        since="0.32.1",
        preference=1,
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-size",
        name="vllm:nixl_bytes_transferred",
        scale=1e-6,
        since="0.10.3",
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-size",
        name="vllm:mooncake_bytes_transferred",
        scale=1e-6,
        since="0.32.1",
        preference=1,
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-failures",
        name="vllm:nixl_num_failed_transfers_total",
        since="0.10.3",
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-failures",
        name="vllm:mooncake_num_failed_transfers_total",
        since="0.32.1",
        preference=1,
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-receive-failures",
        name="vllm:mooncake_num_failed_recvs_total",
        since="0.32.1",
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-expired",
        name="vllm:nixl_num_kv_expired_reqs_total",
        since="0.12.1",
        unproven=_CONNECTOR,
    ),
    Term(
        signal="transfer-expired",
        name="vllm:mooncake_num_kv_expired_reqs_total",
        since="0.32.1",
        preference=1,
        unproven=_CONNECTOR,
    ),
)


def _store(signal: str, name: str, kind: Kind | None = None) -> Term:
    """One of the store connector's families: exported only after a first operation, so absence says nothing."""
    return Term(signal=signal, name=name, kind=kind, keep=(("status", "status"),), since="0.20.3", unproven=_CONNECTOR)


_TIERS = (
    _store("store-operations", "vllm:mooncake_store_operation_total"),
    _store("store-operation-keys", "vllm:mooncake_store_operation_keys_total"),
    _store("store-operation-bytes", "vllm:mooncake_store_operation_bytes_total"),
    _store("store-operation-failed-keys", "vllm:mooncake_store_operation_failed_keys_total"),
    _store("store-operation-time", "vllm:mooncake_store_operation_time_seconds"),
    Term(signal="store-lookup-time", name="vllm:lmcache_mp_lookup_duration_seconds"),
    # From 0.24 the split names say more; the sum of both directions stays beside them.
    Term(signal="offload-bytes", name="vllm:kv_offload_total_bytes_total", since="0.12.1", unproven=_OFFLOAD),
    Term(signal="offload-load-bytes", name="vllm:kv_offload_load_bytes_total", since="0.20.3", unproven=_OFFLOAD),
    Term(signal="offload-store-bytes", name="vllm:kv_offload_store_bytes_total", since="0.20.3", unproven=_OFFLOAD),
    Term(
        signal="offload-allocation-failures",
        name="vllm:kv_offload_allocation_failure_total",
        since="0.24.1",
        unproven=_OFFLOAD,
    ),
)

_IGNORED = """
vllm:request_max_num_generation_tokens vllm:request_params_n vllm:request_params_max_tokens
vllm:request_prefill_kv_computed_tokens vllm:prompt_tokens_recomputed_total
vllm:estimated_flops_per_gpu_total vllm:estimated_read_bytes_per_gpu_total vllm:estimated_write_bytes_per_gpu_total
vllm:kv_block_lifetime_seconds vllm:kv_block_idle_before_evict_seconds vllm:kv_block_reuse_gap_seconds
vllm:num_requests_swapped vllm:cpu_cache_usage_perc vllm:cpu_prefix_cache_hit_rate vllm:gpu_prefix_cache_hit_rate
vllm:time_in_queue_requests vllm:model_forward_time_milliseconds vllm:model_execute_time_milliseconds
vllm:spec_decode_draft_acceptance_rate vllm:spec_decode_efficiency vllm:spec_decode_num_emitted_tokens_total
vllm:nixl_post_time_seconds vllm:nixl_num_descriptors vllm:nixl_num_failed_notifications_total
vllm:nixl_num_notifications_after_expiry_total vllm:mooncake_num_descriptors
vllm:hf3fs_save_duration_seconds vllm:hf3fs_load_duration_seconds
vllm:hf3fs_num_failed_save_total vllm:hf3fs_num_failed_load_total
vllm:kv_offload_total_time_total vllm:kv_offload_load_time_total vllm:kv_offload_store_time_total
vllm:kv_offload_size vllm:kv_offload_load_size vllm:kv_offload_store_size vllm:kv_offload_config_info
vllm:kv_offload_lookup_sync_delay_seconds vllm:kv_offload_lookup_async_delay_seconds
vllm:hisparse_cache_hits_total vllm:hisparse_cache_misses_total vllm:hisparse_host_to_device_bytes_total
vllm:hisparse_host_cache_usage_perc vllm:hisparse_pending_page_transfers vllm:hisparse_host_block_lifetime_seconds
vllm:hisparse_host_block_idle_before_evict_seconds vllm:hisparse_host_block_reuse_gap_seconds
vllm:watermark_requests_total vllm:diffusion_num_denoising_steps_total vllm:diffusion_num_canvas_positions_total
vllm:diffusion_num_committed_tokens_total vllm:umbp_transfer_submitted_total vllm:umbp_transfer_completed_total
vllm:umbp_transfer_failed_total vllm:umbp_transfer_bytes_total
"""

VOCABULARY = Vocabulary(
    name="vllm",
    component=Component.ENGINE,
    aliases=("vllm-ascend", "vllm-openai", "vllm-cpu"),
    labels=Labels(model=("model_name",), rank=("engine",), process=("pid",)),
    terms=(*_LOAD, *_TOKENS, *_LATENCY, *_ADAPTERS_AND_DRAFTS, *_TRANSFER, *_TIERS),
    prefixes=("vllm:",),
    ignored=tuple(_IGNORED.split()),
    version_sources=(VersionSource("/version", "version"),),
    progress=("iteration-tokens", "prompt-tokens", "generation-tokens"),
    idle_levels=("requests-running", "requests-waiting"),
    models_path="/v1/models",
    health_path="/health",
    events_paths=(EventsPath("/kv_event_sources", EventsForm.BY_RANK),),
)
