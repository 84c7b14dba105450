"""Every proof about the aggregated API and the plugin; `prove_kubernetes.py` takes `proofs()` into its own list."""

from __future__ import annotations

import sys

from proofs import Proof, pytest, run

ACCESS = "tests/exporters/aggregated/test_access.py"
ANSWERS = "tests/exporters/aggregated/test_answers.py"
ACCEPT = "tests/exporters/aggregated/test_accept.py"
CLUSTER = "tests/cluster/test_aggregated.py"
TROUBLE = "tests/cluster/test_aggregated_trouble.py"
WHOLE = "tests/cluster/test_aggregated_whole.py"
CI = {"CI": "true"}

PITFALLS = {
    "system:authenticated missing": (ACCESS, "system_authenticated_missing"),
    "304 on fallback": (ANSWERS, "a_304_is_for_kept_documents"),
    "empty resource list": (ANSWERS, "no_empty_resource_list"),
    "two resources one kind": (CLUSTER, "two_resources_one_kind"),
    "401 hides CA mismatch": (ACCESS, "a_401_that_hides_a_ca_mismatch"),
    "text 503 from aggregator": (TROUBLE, "text_503_from_the_aggregator"),
    "Table includeObject=None/Object/Metadata": (ANSWERS, "table_include_object"),
    "unknown as=": (ANSWERS, "an_unknown_as_is_passed_over"),
    "JSON-only vs */*": (ANSWERS, "json_only_or_anything"),
    "repeated X-Remote-Group": (ACCESS, "repeated_group_headers"),
    "percent-encoded extra key": (ACCESS, "percent_encoded_extra_keys"),
    "allowed-names empty": (ACCESS, "allowed_names_empty"),
    "CA rotation with open connections": (TROUBLE, "ca_rotation_with_open_connections"),
    "unready before close": (WHOLE, "unready_before_it_closes"),
    "namespace deletion while we are down": (TROUBLE, "namespace_deletion_while_we_are_down"),
}
"""The pitfalls that the aggregated API has a part in, each with its test."""


def pitfalls() -> list[Proof]:
    """One proof for each pitfall."""
    return [pytest(f"pitfall: {name}", file, "-k", test, env=CI) for name, (file, test) in PITFALLS.items()]


def answers() -> list[Proof]:
    """What is answered, and to whom."""
    return [
        pytest("discovery, OpenAPI, Table, selectors, pages, errors, compression over TLS", ANSWERS, ACCEPT),
        pytest("who is believed and who may ask, over TLS", ACCESS),
        pytest(
            "the real kubectl: every line of the README's table, and the plugin",
            CLUSTER,
            "-k",
            "readme or plugin",
            env=CI,
        ),
        pytest("a user without rights is 403, on the Pod port too", CLUSTER, "-k", "without_rights", env=CI),
        pytest("forged front-proxy headers are 401", CLUSTER, ACCESS, "-k", "forged", env=CI),
        pytest("unqualified `kubectl get modeldeployments` stays the CRD's", CLUSTER, "-k", "plain_name", env=CI),
        pytest("a whole observer read with kubectl, and drained", WHOLE, env=CI),
        pytest("every way of the plugin, and every dead end says what to do", "tests/cli/test_plugin.py"),
    ]


def certificates() -> list[Proof]:
    """Certificates and authorities, replaced while requests run."""
    return [
        pytest("the replicas' own certificate through its whole life", "tests/kube/test_issuing.py"),
        pytest("serving authority rotated under load without a failure", TROUBLE, "-k", "serving_authority", env=CI),
    ]


def proofs() -> list[Proof]:
    """Everything."""
    return [*answers(), *certificates(), *pitfalls()]


if __name__ == "__main__":
    sys.exit(run(proofs()))
