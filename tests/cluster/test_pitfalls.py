"""Every pitfall of a real API server that somebody fell into has its tests, by name; this table is complete and true.

The keys are the list as it was written down when the pitfalls were met. A test that is renamed or deleted, or marked to be
left out, is found here.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ACCESS, ANSWERS, ACCEPT = (f"exporters/aggregated/test_{name}.py" for name in ("access", "answers", "accept"))
AGGREGATED, TROUBLE, WHOLE = (
    f"cluster/test_{name}.py" for name in ("aggregated", "aggregated_trouble", "aggregated_whole")
)
WRITING, READING, ELECTIONS = (f"cluster/test_{name}.py" for name in ("writing_status", "reading", "elections"))
WRITER, INFORMER, ELECTING = (f"kube/test_{name}.py" for name in ("status_writer", "informer", "electing"))

PITFALLS: dict[str, tuple[str, ...]] = {
    "system:authenticated missing": (
        f"{ACCESS}::test_system_authenticated_missing_is_added_by_us",
        f"{AGGREGATED}::test_no_request_of_kube_apiserver_was_refused",
    ),
    "304 on fallback": (f"{ANSWERS}::test_a_304_is_for_kept_documents_and_never_for_the_fallback",),
    "empty resource list": (f"{ANSWERS}::test_no_empty_resource_list_and_one_listed_resource_of_a_kind",),
    "two resources one kind": (
        f"{ANSWERS}::test_no_empty_resource_list_and_one_listed_resource_of_a_kind",
        f"{AGGREGATED}::test_two_resources_one_kind_does_not_happen_in_kubectl",
    ),
    "401 hides CA mismatch": (f"{ACCESS}::test_a_401_that_hides_a_ca_mismatch_is_explained_in_the_log",),
    "text 503 from aggregator": (
        f"{TROUBLE}::test_text_503_from_the_aggregator_while_we_are_down_and_back",
        "kube/test_client.py::test_text_503_from_aggregator",
    ),
    "Table includeObject=None/Object/Metadata": (f"{ANSWERS}::test_table_include_object_none_metadata_object",),
    "unknown `as=`": (f"{ANSWERS}::test_an_unknown_as_is_passed_over",),
    "JSON-only vs `*/*`": (
        f"{ACCEPT}::test_json_only_or_anything_gets_json",
        f"{ANSWERS}::test_json_only_or_anything_is_json_and_protobuf_alone_is_406",
    ),
    "repeated X-Remote-Group": (f"{ACCESS}::test_repeated_group_headers_all_count",),
    "percent-encoded extra key": (f"{ACCESS}::test_percent_encoded_extra_keys_are_decoded_after_lower_case",),
    "allowed-names empty": (
        f"{ACCESS}::test_allowed_names_empty_is_every_name_but_not_with_the_clients_ca",
        f"{ACCESS}::test_allowed_names_empty_admits_every_certificate_of_the_ca",
    ),
    "CA rotation with open connections": (
        f"{ACCESS}::test_ca_rotation_with_open_connections",
        f"{TROUBLE}::test_ca_rotation_with_open_connections_behind_a_real_front_proxy",
        f"{TROUBLE}::test_the_serving_authority_is_rotated_under_load_without_one_failure",
    ),
    "SSA 500 on undeclared field": (
        f"{WRITING}::test_ssa_500_on_undeclared_field",
        f"{WRITER}::test_ssa_500_on_undeclared_field",
    ),
    "owner PUT wiping our condition": (
        f"{WRITING}::test_owner_put_wiping_our_condition",
        f"{WRITER}::test_owner_put_wiping_our_condition",
    ),
    "stale write on re-created object": (
        f"{WRITING}::test_stale_write_on_re_created_object",
        f"{WRITER}::test_stale_write_on_re_created_object",
    ),
    "renewTime without microseconds": (
        f"{ELECTIONS}::test_renewtime_without_microseconds",
        f"{ELECTING}::test_renewtime_without_microseconds",
    ),
    "410 as status and as event": (
        f"{READING}::test_410_as_status_and_as_event",
        f"{INFORMER}::test_410_as_status_and_as_event",
        f"{INFORMER}::test_410_for_ever_does_not_become_a_hot_loop",
    ),
    "watch ends silently": (f"{INFORMER}::test_watch_ends_silently",),
    "future resourceVersion": (
        f"{READING}::test_future_resourceversion_is_silently_empty_and_a_look_tells",
        f"{READING}::test_future_resourceversion_after_a_restored_backup",
        f"{INFORMER}::test_future_resourceversion",
    ),
    "API down 4 s": (f"{READING}::test_api_down_4_s", f"{INFORMER}::test_api_down_4_s"),
    "half-open connection 75 s": (
        f"{READING}::test_half_open_connection_75_s",
        f"{INFORMER}::test_half_open_connection_75_s",
    ),
    "unready before close": (
        f"{ANSWERS}::test_unready_before_close",
        f"{WHOLE}::test_kubectl_reads_what_a_whole_observer_measured_and_it_is_unready_before_it_closes",
        "cluster/inside_replicas.py::test_drained_killed_and_standing_still",
    ),
    "namespace deletion while we are down": (
        f"{TROUBLE}::test_namespace_deletion_while_we_are_down_hangs_and_ends_when_we_are_back",
    ),
    "two replicas same manager different sets": (
        f"{WRITING}::test_two_replicas_same_manager_different_sets",
        f"{WRITER}::test_two_replicas_same_manager_different_sets",
    ),
    "conditions atomic CRD": (
        f"{WRITING}::test_conditions_atomic_crd",
        "kube/test_schemas.py::test_only_a_list_that_merges_by_type_is_written_to",
    ),
}


def test_every_pitfall_is_in_the_table() -> None:
    assert len(PITFALLS) == 26
    assert all(PITFALLS.values())


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_its_tests_exist_and_are_not_left_out(pitfall: str) -> None:
    for test in PITFALLS[pitfall]:
        file, _, name = test.partition("::")
        tree = ast.parse((TESTS / file).read_text("utf-8"))
        found = [
            each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name
        ]
        assert len(found) == 1, f"{pitfall}: {test} does not exist"
        marks = [ast.unparse(mark) for mark in found[0].decorator_list]
        assert not [mark for mark in marks if "skip" in mark or "xfail" in mark], f"{test} is left out: {marks}"
