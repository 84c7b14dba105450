"""The Mooncake store table: the master's own exposition.

Facts that shape it: everything but the segments is exported at 0 from the start; a master that was restarted under a
live client has its capacity back and no keys, so capacity is not data; a killed client's segment and keys stay for its
time to live and vanish at once. Some counters have no ``_total`` on the wire.
"""

from router_contract.targets import Component
from router_contract.vocabulary import Labels, Term, Vocabulary

_TENANT = (("tenant", "tenant_id"),)
_NO_TENANTS = "no recording has tenants"
_PREFIX = "mooncake_tenant_quota_"


def _tenant(signal: str, name: str, since: str | None = None, before: str | None = None) -> Term:
    """One of the per-tenant families, known by name only."""
    return Term(signal=signal, name=_PREFIX + name, keep=_TENANT, since=since, before=before, unproven=_NO_TENANTS)


_LEVELS = (
    Term(signal="store-capacity-bytes", name="master_total_capacity_bytes"),
    Term(signal="store-allocated-bytes", name="master_allocated_bytes"),
    Term(signal="store-secondary-capacity-bytes", name="master_total_file_capacity_bytes"),
    Term(signal="store-secondary-bytes", name="master_allocated_file_size_bytes"),
    Term(signal="store-keys", name="master_key_count"),
    Term(signal="store-clients", name="master_active_clients"),
    Term(signal="store-segment-capacity-bytes", name="segment_total_capacity_bytes", keep=(("segment", "segment"),)),
    Term(signal="store-segment-allocated-bytes", name="segment_allocated_bytes", keep=(("segment", "segment"),)),
)

_TRAFFIC = (
    Term(signal="store-evictions", name="master_successful_evictions_total"),
    Term(signal="store-evicted-keys", name="master_evicted_key_count"),
    Term(signal="store-evicted-bytes", name="master_evicted_size_bytes"),
    Term(signal="store-lookups", name="total_get_nums_"),
    Term(signal="store-hits", name="valid_get_nums_"),
    Term(signal="store-put-requests", name="master_put_start_requests_total"),
    Term(signal="store-put-failures", name="master_put_start_failures_total"),
)

_TENANTS = (
    _tenant("store-tenant-used-bytes", "used_bytes", before="0.3.13"),
    _tenant("store-tenant-reserved-bytes", "reserved_bytes", before="0.3.13"),
    _tenant("store-tenant-objects", "committed_count", before="0.3.13"),
    _tenant("store-tenant-metadata-objects", "metadata_object_count", before="0.3.13"),
    _tenant("store-tenant-charged-bytes", "charged_bytes", since="0.3.13"),
    _tenant("store-tenant-admission-closed", "admission_closed", since="0.3.13"),
    _tenant("store-tenant-requested-bytes", "requested_bytes"),
    _tenant("store-tenant-effective-bytes", "effective_bytes"),
    _tenant("store-tenant-over-quota", "over_quota"),
    _tenant("store-tenant-explicit-policy", "explicit_policy"),
    Term(signal="store-allocatable-bytes", name=_PREFIX + "allocatable_capacity_bytes", unproven=_NO_TENANTS),
    Term(signal="store-tenants-requested-bytes", name=_PREFIX + "requested_bytes_sum", unproven=_NO_TENANTS),
    Term(signal="store-tenants-effective-bytes", name=_PREFIX + "effective_bytes_sum", unproven=_NO_TENANTS),
)

_IGNORED = """
master_nof_allocated_bytes master_total_nof_capacity_bytes master_soft_pin_key_count master_exist_key_requests_total
master_exist_key_failures_total master_put_start_alloc_failures_total master_put_start_partial_allocations_total
master_put_end_requests_total master_put_end_failures_total master_put_revoke_requests_total
master_put_revoke_failures_total master_get_replica_list_requests_total master_get_replica_list_failures_total
master_get_replica_list_by_regex_requests_total master_get_replica_list_by_regex_failures_total
master_remove_requests_total master_remove_failures_total master_remove_by_regex_requests_total
master_remove_by_regex_failures_total master_remove_all_requests_total master_remove_all_failures_total
master_mount_segment_requests_total master_mount_segment_failures_total master_unmount_segment_requests_total
master_unmount_segment_failures_total master_remount_segment_requests_total master_remount_segment_failures_total
master_ping_requests_total master_ping_failures_total master_copy_start_requests_total
master_copy_start_failures_total master_copy_end_requests_total master_copy_end_failures_total
master_copy_revoke_requests_total master_copy_revoke_failures_total master_move_start_requests_total
master_move_start_failures_total master_move_end_requests_total master_move_end_failures_total
master_move_revoke_requests_total master_move_revoke_failures_total master_evict_disk_replica_requests_total
master_evict_disk_replica_failures_total master_create_copy_task_requests_total master_create_copy_task_failures_total
master_create_move_task_requests_total master_create_move_task_failures_total master_update_task_requests_total
master_update_task_failures_total master_query_task_requests_total master_query_task_failures_total
master_fetch_tasks_requests_total master_fetch_tasks_failures_total master_batch_exist_key_requests_total
master_batch_exist_key_failures_total master_batch_exist_key_partial_successes_total
master_batch_exist_key_items_total master_batch_exist_key_failed_items_total master_batch_query_ip_requests_total
master_batch_query_ip_failures_total master_batch_query_ip_partial_successes_total master_batch_query_ip_items_total
master_batch_query_ip_failed_items_total master_batch_replica_clear_requests_total
master_batch_replica_clear_failures_total master_batch_replica_clear_partial_successes_total
master_batch_replica_clear_items_total master_batch_replica_clear_failed_items_total
master_batch_get_replica_list_requests_total master_batch_get_replica_list_failures_total
master_batch_get_replica_list_partial_successes_total master_batch_get_replica_list_items_total
master_batch_get_replica_list_failed_items_total master_batch_put_start_requests_total
master_batch_put_start_failures_total master_batch_put_start_partial_successes_total
master_batch_put_start_items_total master_batch_put_start_failed_items_total master_batch_put_end_requests_total
master_batch_put_end_failures_total master_batch_put_end_partial_successes_total master_batch_put_end_items_total
master_batch_put_end_failed_items_total master_batch_put_revoke_requests_total master_batch_put_revoke_failures_total
master_batch_put_revoke_partial_successes_total master_batch_put_revoke_items_total
master_batch_put_revoke_failed_items_total mem_cache_hit_nums_ file_cache_hit_nums_ mem_cache_hit_bytes_total
file_cache_hit_bytes_total mem_cache_nums_ file_cache_nums_ master_attempted_evictions_total
master_put_start_discard_cnt master_put_start_release_cnt master_put_start_discarded_staging_size
master_promotion_in_flight master_promotion_admitted_total master_promotion_completed_total
master_promotion_completed_bytes_total master_promotion_expired_total master_promotion_failed_total
master_promotion_cancelled_total master_promotion_rejected_frequency_total master_promotion_rejected_watermark_total
master_promotion_rejected_cap_total master_promotion_candidate_recorded_total
master_promotion_candidate_admitted_total master_promotion_candidate_admission_rejected_total
master_promotion_candidate_expired_evaluated_total master_promotion_candidate_expired_unevaluated_total
master_promotion_candidate_dropped_limit_total ha_oplog_last_sequence_id ha_oplog_applied_sequence_id
ha_oplog_standby_lag ha_oplog_pending_entries ha_pending_mutation_queue_size ha_standby_state master_value_size_bytes
master_successful_evictions_mem master_attempted_evictions_mem master_evicted_key_count_mem
master_evicted_size_bytes_mem
"""

VOCABULARY = Vocabulary(
    name="mooncake",
    component=Component.STORE,
    aliases=("mooncake-store", "mooncake-master"),
    labels=Labels(),
    terms=(*_LEVELS, *_TRAFFIC, *_TENANTS),
    prefixes=("master_", "segment_", "mooncake_", "mem_cache_", "file_cache_", "total_get_", "valid_get_", "ha_"),
    ignored=tuple(_IGNORED.split()),
)
