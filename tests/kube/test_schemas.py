"""Whether a kind's conditions merge by type: the shapes of the CRDs that are known, and of what the API publishes."""

from __future__ import annotations

from typing import Any

import pytest

from observer.kube.resources import Resource
from observer.kube.schemas import Conditions, of_definition, of_openapi

MD = Resource(group="worker.gpustack.ai", version="v1alpha1", plural="modeldeployments", kind="ModelDeployment")
MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def definition(conditions: Any, *, status: bool = True, served: bool = True) -> dict[str, Any]:
    properties = {} if conditions is None else {"conditions": conditions}
    version: dict[str, Any] = {
        "name": "v1alpha1",
        "served": served,
        "schema": {"openAPIV3Schema": {"properties": {"status": {"properties": properties}}}},
    }
    if status:
        version["subresources"] = {"status": {}}
    return {"spec": {"versions": [{"name": "v1", "served": True}, version]}}


CASES = {
    "merges by type": (definition(MAP), Conditions.MAP),
    "conditions atomic CRD": (definition({"type": "array", "x-kubernetes-list-type": "atomic"}), Conditions.ATOMIC),
    "conditions atomic CRD by saying nothing": (definition({"type": "array"}), Conditions.ATOMIC),
    "merges by something else": (definition({**MAP, "x-kubernetes-list-map-keys": ["name"]}), Conditions.UNKNOWN),
    "a set": (definition({"x-kubernetes-list-type": "set"}), Conditions.UNKNOWN),
    "no conditions": (definition(None), Conditions.NO_CONDITIONS),
    "no status subresource": (definition(MAP, status=False), Conditions.NO_STATUS),
    "not served": (definition(MAP, served=False), Conditions.NOT_SERVED),
    "another version only": ({"spec": {"versions": [{"name": "v1", "served": True}]}}, Conditions.NOT_SERVED),
    "no definition at all": ({}, Conditions.NOT_SERVED),
    "no schema": (
        {"spec": {"versions": [{"name": "v1alpha1", "served": True, "subresources": {"status": {}}}]}},
        Conditions.NO_CONDITIONS,
    ),
}


@pytest.mark.parametrize(("document", "found"), CASES.values(), ids=CASES.keys())
def test_only_a_list_that_merges_by_type_is_written_to(document: dict[str, Any], found: Conditions) -> None:
    policy = of_definition(document, MD)
    assert (policy.conditions, policy.writable) == (found, found is Conditions.MAP)
    assert "modeldeployments.v1alpha1.worker.gpustack.ai" in policy.reason


def openapi(conditions: Any, *, subresource: bool = True) -> dict[str, Any]:
    path = "/apis/worker.gpustack.ai/v1alpha1/namespaces/{namespace}/modeldeployments/{name}"
    return {
        "paths": {path: {}, **({f"{path}/status": {}} if subresource else {})},
        "components": {
            "schemas": {
                "other": {"type": "object"},
                "ai.gpustack.worker.v1alpha1.ModelDeployment": {
                    "properties": {"status": {"properties": {"conditions": conditions}}},
                    "x-kubernetes-group-version-kind": [
                        {"group": "worker.gpustack.ai", "kind": "ModelDeployment", "version": "v1alpha1"}
                    ],
                },
            }
        },
    }


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (openapi(MAP), Conditions.MAP),
        (openapi({"type": "array"}), Conditions.ATOMIC),
        (openapi(MAP, subresource=False), Conditions.NO_STATUS),
        ({}, Conditions.NOT_SERVED),
    ],
)
def test_the_openapi_document_says_the_same_without_a_right_to_definitions(
    document: dict[str, Any], found: Conditions
) -> None:
    assert of_openapi(document, MD).conditions is found
