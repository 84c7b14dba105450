"""Hand-written rules of the independent judge: which series of which program is which signal, and how it combines.

Written from the wire facts alone, without reading the tables of ``router_contract``; `recompute.py` walks them.

A line of `RULES` is ``signal | wire names | kept labels | options``. Wire names are family names without ``_total``; the
first that holds a usable value wins, so a new name stands before the old one. A kept label is ``wire>ours`` or one name
for both; ``*`` keeps all as on the wire, and ours beside them. Labels that are not kept are combined by the signal's rule. Options: ``only=LABEL:VALUE``
takes those series alone, ``value=LABEL`` takes the number from a label, ``removed`` means that -1 stands for a worker
that is gone and is not a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FACTS = """
gauge add requests: requests-running requests-waiting requests-waiting-by-reason requests-retracted requests-paused
gauge add requests: kv-fetch-requests prefill-bootstrap-waiting prefill-prealloc-waiting prefill-inflight
gauge add requests: decode-prealloc-waiting decode-transfer-waiting decode-host-receive-waiting
gauge add requests: router-requests-running router-worker-active-requests router-pd-active-decodes
gauge add requests: router-pd-pending-decodes router-endpoint-queue-size
gauge weigh fraction: kv-cache-usage lora-slots-usage speculative-acceptance-rate router-average-kv-cache-usage
gauge weigh fraction: store-usage
gauge weigh tokens: speculative-accepted-length
gauge weigh requests: router-average-queue-size router-average-requests-running
gauge add blocks: kv-capacity-blocks
gauge max tokens: kv-block-size context-length
gauge add tokens: kv-capacity-tokens kv-used-tokens kv-evictable-tokens kv-available-tokens
gauge add tokens: host-cache-capacity-tokens host-cache-used-tokens router-pd-active-prefill-tokens
gauge add engines: sleep-state
gauge max unix-seconds: process-start-time
gauge add adapters: lora-slots lora-slots-used
gauge add backends: router-backends
gauge add workers: router-reported-workers
gauge add connections: router-connections
gauge each 1: router-worker-health router-worker-circuit
gauge add bytes: store-capacity-bytes store-allocated-bytes store-secondary-capacity-bytes store-secondary-bytes
gauge add bytes: store-segment-capacity-bytes store-segment-allocated-bytes
gauge add keys: store-keys
gauge add clients: store-clients
counter add tokens: prompt-tokens generation-tokens prefix-cache-queries prefix-cache-hits external-cache-queries
counter add tokens: external-cache-hits prompt-tokens-by-source cached-tokens cached-tokens-by-source
counter add tokens: effective-prefill-tokens realtime-tokens store-lookup-tokens store-hit-tokens
counter add tokens: store-memory-hit-tokens store-secondary-hit-tokens
counter add events: preemptions router-retries router-retries-exhausted router-worker-circuit-transitions
counter add events: store-evictions
counter add requests: requests-finished aborted-requests admission-rejections transfer-failures bootstrap-failures
counter add requests: router-requests router-successful-requests router-http-requests router-worker-requests
counter add requests: router-worker-outcomes router-pd-requests router-pd-prefill-requests router-pd-decode-requests
counter add requests: store-put-requests store-put-failures
counter add items: multimodal-cache-queries multimodal-cache-hits
counter add errors: router-errors router-request-errors router-worker-errors router-pd-errors
counter add errors: router-pd-prefill-errors router-pd-decode-errors
counter add responses: router-http-responses router-upstream-responses
counter add checks: router-worker-health-checks
counter add decisions: router-policy-decisions router-prefix-decisions router-cache-hits router-cache-misses
counter add lookups: router-kv-placement-lookups store-lookups store-hits
counter add attempts: router-scheduler-attempts
counter add keys: store-evicted-keys
counter add bytes: store-evicted-bytes
counter add chunks: store-written-chunks store-read-chunks
histogram add tokens: iteration-tokens request-prompt-tokens request-generation-tokens
histogram add events: request-preemptions
histogram add seconds: time-to-first-token inter-token-latency time-per-output-token request-duration queue-time
histogram add seconds: inference-time prefill-time decode-time store-lookup-time router-request-duration
histogram add seconds: router-http-duration router-pd-request-duration router-time-to-first-token
histogram add milliseconds: transfer-latency transfer-bootstrap-time transfer-allocation-time
histogram add GB/second: transfer-speed
histogram add MB: transfer-size
info each 1: cache-config build-info
"""

COPIES = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
"""Labels of copies of one number: tensor, pipeline and expert ranks report the same request, processes the same gauge."""

ALWAYS_KEPT = {
    "vllm": {"engine": "rank", "model_name": "model"},
    "sglang": {"dp_rank": "rank", "model_name": "model"},
}
"""Labels that every signal of an engine keeps. A router's model is what a client sent and LMCache's is a path: neither
tells a served model, so there it is not kept."""

RULES = {
    "vllm": """
        requests-running | vllm:num_requests_running
        requests-waiting | vllm:num_requests_waiting
        requests-waiting-by-reason | vllm:num_requests_waiting_by_reason | reason
        kv-cache-usage | vllm:kv_cache_usage_perc vllm:gpu_cache_usage_perc
        kv-capacity-blocks | vllm:cache_config_info | | value=num_gpu_blocks
        kv-block-size | vllm:cache_config_info | | value=block_size
        kv-capacity-tokens | vllm:cache_config_info | | value=kv_cache_size_tokens
        sleep-state | vllm:engine_sleep_state | sleep_state>state
        kv-fetch-requests | vllm:num_requests_kv_fetch_by_stage | stage
        prompt-tokens | vllm:prompt_tokens
        generation-tokens | vllm:generation_tokens
        iteration-tokens | vllm:iteration_tokens_total
        preemptions | vllm:num_preemptions
        requests-finished | vllm:request_success | finished_reason>reason
        aborted-requests | vllm:request_success | | only=finished_reason:abort
        admission-rejections | vllm:admission_rejections | reason
        prefix-cache-queries | vllm:prefix_cache_queries vllm:gpu_prefix_cache_queries
        prefix-cache-hits | vllm:prefix_cache_hits vllm:gpu_prefix_cache_hits
        external-cache-queries | vllm:external_prefix_cache_queries
        external-cache-hits | vllm:external_prefix_cache_hits
        multimodal-cache-queries | vllm:mm_cache_queries
        multimodal-cache-hits | vllm:mm_cache_hits
        prompt-tokens-by-source | vllm:prompt_tokens_by_source | source
        cached-tokens | vllm:prompt_tokens_cached
        cached-tokens-by-source | vllm:prompt_tokens_cached_by_source | source
        time-to-first-token | vllm:time_to_first_token_seconds
        inter-token-latency | vllm:inter_token_latency_seconds vllm:time_per_output_token_seconds
        time-per-output-token | vllm:request_time_per_output_token_seconds
        request-duration | vllm:e2e_request_latency_seconds
        queue-time | vllm:request_queue_time_seconds
        inference-time | vllm:request_inference_time_seconds
        prefill-time | vllm:request_prefill_time_seconds
        decode-time | vllm:request_decode_time_seconds
        request-prompt-tokens | vllm:request_prompt_tokens
        request-generation-tokens | vllm:request_generation_tokens
        request-preemptions | vllm:request_num_preemptions
        cache-config | vllm:cache_config_info | *
        process-start-time | process_start_time_seconds
        store-lookup-time | vllm:lmcache_mp_lookup_duration_seconds
    """,
    "sglang": """
        requests-running | sglang:num_running_reqs
        requests-waiting | sglang:num_queue_reqs
        requests-retracted | sglang:num_retracted_reqs
        requests-paused | sglang:num_paused_reqs
        kv-cache-usage | sglang:token_usage
        kv-capacity-blocks | sglang:num_pages
        kv-block-size | sglang:page_size
        kv-capacity-tokens | sglang:max_total_num_tokens
        kv-used-tokens | sglang:kv_used_tokens sglang:num_used_tokens
        kv-evictable-tokens | sglang:kv_evictable_tokens
        kv-available-tokens | sglang:kv_available_tokens
        context-length | sglang:context_len
        prompt-tokens | sglang:prompt_tokens
        generation-tokens | sglang:generation_tokens
        requests-finished | sglang:num_requests
        aborted-requests | sglang:num_aborted_requests
        cached-tokens | sglang:cached_tokens
        cached-tokens-by-source | sglang:cached_tokens | cache_source>source | has=cache_source
        effective-prefill-tokens | sglang:prefill_effective_tokens | mode
        realtime-tokens | sglang:realtime_tokens | mode
        time-to-first-token | sglang:time_to_first_token_seconds
        inter-token-latency | sglang:inter_token_latency_seconds
        time-per-output-token | sglang:request_time_per_output_token_seconds
        request-duration | sglang:e2e_request_latency_seconds
        queue-time | sglang:queue_time_seconds
        prefill-time | sglang:per_stage_req_latency_seconds | | only=stage:prefill_forward
        request-prompt-tokens | sglang:prompt_tokens_histogram
        request-generation-tokens | sglang:generation_tokens_histogram
        lora-slots | sglang:lora_pool_slots_total
        lora-slots-used | sglang:lora_pool_slots_used
        lora-slots-usage | sglang:lora_pool_utilization
        speculative-accepted-length | sglang:spec_accept_length
        speculative-acceptance-rate | sglang:spec_accept_rate
        prefill-bootstrap-waiting | sglang:num_prefill_bootstrap_queue_reqs
        prefill-prealloc-waiting | sglang:num_prefill_prealloc_queue_reqs
        prefill-inflight | sglang:num_prefill_inflight_queue_reqs sglang:num_prefill_infight_queue_reqs
        decode-prealloc-waiting | sglang:num_decode_prealloc_queue_reqs
        decode-transfer-waiting | sglang:num_decode_transfer_queue_reqs
        decode-host-receive-waiting | sglang:num_decode_host_receive_queue_reqs
        transfer-latency | sglang:kv_transfer_latency_ms
        transfer-speed | sglang:kv_transfer_speed_gb_s
        transfer-size | sglang:kv_transfer_total_mb
        transfer-bootstrap-time | sglang:kv_transfer_bootstrap_ms
        transfer-allocation-time | sglang:kv_transfer_alloc_ms
        transfer-failures | sglang:num_transfer_failed_reqs
        bootstrap-failures | sglang:num_bootstrap_failed_reqs
        host-cache-capacity-tokens | sglang:hicache_host_total_tokens
        host-cache-used-tokens | sglang:hicache_host_used_tokens
        process-start-time | process_start_time_seconds
    """,
    "sglang_gateway": """
        router-requests-running | smg_worker_requests_active sgl_router_running_requests | | removed
        router-worker-active-requests | smg_worker_requests_active sgl_router_running_requests | worker | removed
        router-backends | smg_worker_pool_size
        router-reported-workers | sgl_router_active_workers
        router-connections | smg_http_connections_active
        router-worker-health | smg_worker_health sgl_router_worker_health | worker | removed
        router-worker-circuit | smg_worker_cb_state sgl_router_cb_state | worker | removed
        router-requests | smg_router_requests | endpoint>route
        router-successful-requests | sgl_router_requests | route
        router-errors | smg_router_request_errors sgl_router_request_errors | endpoint>route route error_type
        router-retries | smg_worker_retries sgl_router_retries | endpoint>route route worker_type
        router-retries-exhausted | smg_worker_retries_exhausted sgl_router_retries_exhausted \
            | endpoint>route route worker_type
        router-http-responses | smg_http_responses sgl_router_http_responses | status_code error_code
        router-http-requests | smg_http_requests | method path
        router-upstream-responses | smg_router_upstream_responses | status_code error_code
        router-worker-requests | sgl_router_processed_requests | worker
        router-worker-outcomes | smg_worker_cb_outcomes sgl_router_cb_outcomes | worker outcome
        router-worker-circuit-transitions | smg_worker_cb_transitions | worker from to
        router-worker-errors | smg_worker_errors | worker_type error_type
        router-worker-health-checks | smg_worker_health_checks | worker_type result
        router-policy-decisions | smg_worker_selection sgl_router_policy_decisions | policy worker_type
        router-cache-hits | sgl_router_cache_hits
        router-cache-misses | sgl_router_cache_misses
        router-request-duration | smg_router_request_duration_seconds sgl_router_generate_duration_seconds
        router-http-duration | smg_http_request_duration_seconds | path
    """,
    "vllm_router": """
        router-requests-running | vllm_router_running_requests
        router-worker-active-requests | vllm_router_running_requests | worker
        router-reported-workers | vllm_router_active_workers
        router-worker-health | vllm_router_worker_health | worker
        router-worker-circuit | vllm_router_cb_state | worker
        router-successful-requests | vllm_router_requests | route
        router-errors | vllm_router_request_errors | route error_type
        router-retries | vllm_router_retries | route
        router-retries-exhausted | vllm_router_retries_exhausted | route
        router-worker-requests | vllm_router_processed_requests | worker
        router-worker-outcomes | vllm_router_cb_outcomes | worker outcome
        router-worker-circuit-transitions | vllm_router_cb_state_transitions | worker from to
        router-policy-decisions | vllm_router_policy_decisions | policy
        router-prefix-decisions | vllm_router_prefix_routing_decisions | policy stage outcome
        router-kv-placement-lookups | vllm_router_kv_placement_lookups | result
        router-request-duration | vllm_router_generate_duration_seconds
        router-pd-requests | vllm_router_pd_requests | route
        router-pd-errors | vllm_router_pd_errors | error_type
        router-pd-prefill-errors | vllm_router_pd_prefill_errors | worker
        router-pd-decode-errors | vllm_router_pd_decode_errors | worker
        router-pd-prefill-requests | vllm_router_pd_prefill_requests | worker
        router-pd-decode-requests | vllm_router_pd_decode_requests | worker
        router-pd-active-decodes | vllm_router_pd_active_decode_requests | worker
        router-pd-pending-decodes | vllm_router_pd_pending_decode_requests | worker
        router-pd-active-prefill-tokens | vllm_router_pd_active_prefill_tokens | worker
        router-pd-request-duration | vllm_router_pd_request_duration_seconds
    """,
    "llm_d": """
        router-requests-running | llm_d_epp_request_running inference_objective_running_requests
        router-worker-active-requests | llm_d_epp_inflight_requests | endpoint_name>worker
        router-backends | llm_d_epp_ready_endpoints inference_pool_ready_pods
        router-endpoint-queue-size | llm_d_epp_per_endpoint_queue_size inference_pool_per_pod_queue_size \
            | model_server_endpoint>endpoint model_server_pod>endpoint
        router-average-kv-cache-usage | llm_d_epp_average_kv_cache_utilization \
            inference_pool_average_kv_cache_utilization
        router-average-queue-size | llm_d_epp_average_queue_size inference_pool_average_queue_size
        router-average-requests-running | llm_d_epp_average_running_requests inference_pool_average_running_requests
        router-requests | llm_d_epp_request inference_objective_request
        router-request-errors | llm_d_epp_request_error inference_objective_request_error | error_code
        router-scheduler-attempts | llm_d_epp_scheduler_attempts inference_extension_scheduler_attempts \
            | status endpoint_name>endpoint pod_name>endpoint
        router-time-to-first-token | llm_d_epp_request_ttft_seconds
        build-info | llm_d_epp_info | *
    """,
    "mooncake": """
        store-capacity-bytes | master_total_capacity_bytes
        store-allocated-bytes | master_allocated_bytes
        store-secondary-capacity-bytes | master_total_file_capacity_bytes
        store-secondary-bytes | master_allocated_file_size_bytes
        store-keys | master_key_count
        store-clients | master_active_clients
        store-segment-capacity-bytes | segment_total_capacity_bytes | segment
        store-segment-allocated-bytes | segment_allocated_bytes | segment
        store-evictions | master_successful_evictions
        store-evicted-keys | master_evicted_key_count
        store-evicted-bytes | master_evicted_size_bytes
        store-lookups | total_get_nums_
        store-hits | valid_get_nums_
        store-put-requests | master_put_start_requests
        store-put-failures | master_put_start_failures
    """,
    "lmcache": """
        store-allocated-bytes | lmcache_mp_l1_memory_usage_bytes
        store-usage | lmcache_mp_l1_usage_ratio
        store-secondary-bytes | lmcache_mp_l2_usage_bytes
        store-lookups | lmcache_mp_lookups_requests
        store-lookup-tokens | lmcache_mp_lookup_requested_tokens
        store-hit-tokens | lmcache_mp_lookup_hit_tokens
        store-memory-hit-tokens | lmcache_mp_lookup_hit_l1_tokens
        store-secondary-hit-tokens | lmcache_mp_lookup_hit_l2_tokens
        store-written-chunks | lmcache_mp_l1_write_chunks
        store-read-chunks | lmcache_mp_l1_read_chunks
        process-start-time | process_start_time_seconds
    """,
}

FOLDERS = (
    ("lmcache-*/vllm-metrics-*", "vllm"),
    ("lmcache-*/*", "lmcache"),
    ("mooncake-*/*", "mooncake"),
    ("sglang-router-*/*", "sglang_gateway"),
    ("vllm-router-*/*", "vllm_router"),
    ("synthetic/epp-*", "llm_d"),
    ("sglang-*/*", "sglang"),
    ("vllm-*/*", "vllm"),
)
"""Which program wrote a recording, by the first pattern that its path matches."""


@dataclass(frozen=True)
class Rule:
    """How one signal is read from one program."""

    signal: str
    kind: str
    combine: str
    unit: str
    names: tuple[str, ...]
    keep: dict[str, str] = field(default_factory=dict)
    keep_all: bool = False
    only: tuple[str, str] | None = None
    has: str = ""
    value_label: str = ""
    removed: bool = False


def facts() -> dict[str, tuple[str, str, str]]:
    """Kind, combination and unit of each signal."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in FACTS.strip().splitlines():
        head, _, signals = line.partition(":")
        kind, combine, unit = head.split()
        found.update(dict.fromkeys(signals.split(), (kind, combine, unit)))
    return found


def rules(vocabulary: str) -> list[Rule]:
    """The rules of one program."""
    known = facts()
    made = []
    for line in RULES[vocabulary].strip().splitlines():
        signal, names, kept, options = ([part.strip() for part in line.split("|")] + ["", "", ""])[:4]
        kind, combine, unit = known[signal]
        keep = dict(ALWAYS_KEPT.get(vocabulary, {}))
        for label in kept.replace("*", "").split():
            wire, _, ours = label.partition(">")
            keep[wire] = ours or wire
        wanted = dict([*option.split("=", 1), ""][:2] for option in options.split())
        wire, _, value = wanted.get("only", "").partition(":")
        made.append(
            Rule(
                signal,
                kind,
                combine,
                unit,
                tuple(names.split()),
                keep,
                keep_all=kept == "*",
                only=(wire, value) if wire else None,
                has=wanted.get("has", ""),
                value_label=wanted.get("value", ""),
                removed="removed" in wanted,
            )
        )
    return made
