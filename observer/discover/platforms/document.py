"""The `Platform` document: what a person writes to have a kind of deployment discovered, without a release of ours.

Nothing here is evaluated: values are taken from objects by path, label, annotation, image, flag or named port, and the
first of a list that gives something counts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from observer.discover.platforms.document_facts import (
    FactsRule,
    NoteRule,
    OwnedCount,
    ReasonRule,
    SelectorOf,
    StatusRule,
    WorkloadRule,
)
from observer.discover.platforms.values import Count, Takes, Texts
from observer.yamldoc.quantities import Name


class StatusPolicy(StrEnum):
    """Whether conditions of ours may stand on the target."""

    SCHEMA = "Schema"
    NEVER = "Never"


class TargetRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The object that stands for a deployment; or, with `groupBy`, the Pods themselves."""

    group: Annotated[str, Meta(description="API group; empty for the core group.")] = ""
    version: Annotated[str, Meta(description="API version.")] = ""
    kind: Annotated[str, Meta(description="Kind.")] = ""
    plural: Annotated[str, Meta(description="Resource name in the API's paths.")] = ""
    status_policy: Annotated[
        StatusPolicy, Meta(description="`Schema`: ours are added where its schema merges conditions by type.")
    ] = StatusPolicy.SCHEMA
    when: Annotated[Takes, Meta(description="Objects without a value here are no deployments.")] = ()
    unless: Annotated[Takes, Meta(description="Objects with a value here are no deployments.")] = ()
    label_selector: Annotated[str, Meta(description="Objects that the server is asked for.")] = ""
    group_by: Annotated[
        tuple[str, ...], Meta(description="No object: Pods that agree in these labels are one deployment, so named.")
    ] = ()


class SourceRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One more kind of object that is read: its own informer, its own right, and a visible state when it fails."""

    name: Annotated[Name, Meta(description="What other keys and the RBAC switch call it.")]
    group: Annotated[str, Meta(description="API group.")] = ""
    version: Annotated[str, Meta(description="API version.")]
    kind: Annotated[str, Meta(description="Kind, as `sources[]` names it.")]
    plural: Annotated[str, Meta(description="Resource name.")]
    namespaced: Annotated[bool, Meta(description="Whether its objects lie in namespaces.")] = True
    keep: Annotated[tuple[str, ...], Meta(description="Paths kept beside the metadata; empty: whole objects.")] = ()
    label_selector: Annotated[str, Meta(description="Objects that the server is asked for.")] = ""


class ThroughRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects between the target and its Pods. One of which no Pod is here has them in another cluster: not observed."""

    source: Annotated[str, Meta(description="Name of the source that has them; those count that the target owns.")]
    label: Annotated[str, Meta(description="Label of the Pods.")]
    value: Annotated[str, Meta(description="Its value; `{object}` is the object's name.")] = "{object}"
    cluster: Annotated[str | None, Meta(description="Path in the object to the name of the cluster it lies in.")] = None


class ReferredRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects named by the target, each of which says which Pods are its."""

    source: Annotated[str, Meta(description="Name of the source that has them.")]
    names: Annotated[str, Meta(description="Path in the target to their names.")]
    path: Annotated[str, Meta(description="Path in the object to its selector, written as `a=b,c=d`.")]


class PodRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which Pods of the target's namespace belong.

    A label's value may be `a|b`, `*` (any), `!` (must be absent) or `a|!` (that or absent).
    """

    labels: Annotated[Texts, Meta(description="Labels; `{name}`, `{namespace}`, `{role}` are filled in.")] = ()
    selector: Annotated[
        str | None, Meta(description="Path in the target to a mapping of labels, or to a LabelSelector.")
    ] = None
    selector_of: Annotated[
        SelectorOf | None, Meta(description="An object whose selector it is, as a Service that the target names.")
    ] = None
    referred: Annotated[
        tuple[ReferredRule, ...],
        Meta(
            description="Objects that the target names. Where it names one, Pods are those of their selectors instead."
        ),
    ] = ()
    owner: Annotated[
        tuple[str, ...],
        Meta(description="Kinds of the controllers from the Pod up to the target; UIDs are compared at each step."),
    ] = ()
    other_owners: Annotated[
        tuple[str, ...],
        Meta(description="Further chains, of which one will do as well, as `ReplicaSet/Deployment/Kind`."),
    ] = ()
    namespace: Annotated[Takes, Meta(description="Where the Pods are; in the target's namespace when absent.")] = ()
    through: Annotated[
        ThroughRule | None, Meta(description="Objects that the target owns, whose names the Pods carry.")
    ] = None
    companions: Annotated[
        str | None,
        Meta(description="Label: Pods with the value of one that was taken belong too, as a gang's workers."),
    ] = None


class EngineRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which program serves, and its version."""

    software: Annotated[Takes, Meta(description="Name of the engine's table, as `vllm`.")] = ()
    version: Annotated[Takes, Meta(description="Its version, where somebody says it.")] = ()


class EndpointRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One HTTP listener of a Pod. The host is always the Pod's address."""

    port: Annotated[Takes, Meta(description="Port number.")]
    path: Annotated[Takes, Meta(description="Path; `/metrics` when absent.")] = ()
    scheme: Annotated[Takes, Meta(description="`http` when absent.")] = ()
    skip_verify: Annotated[bool, Meta(description="Accept any certificate: Pods sign their own.")] = False


class EventsRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """KV-event publishers. Sockets are dialled at the Pod's address; only the port of a published endpoint is used."""

    endpoint: Annotated[Takes, Meta(description="Published URL or port of the publisher; absent: none is there.")] = ()
    replay: Annotated[Takes, Meta(description="Published URL or port of its replay socket.")] = ()
    topic: Annotated[Takes, Meta(description="Topic filter.")] = ()
    published: Annotated[
        Takes, Meta(description="Tells that a role's Pods carry publisher configuration, when it has a value.")
    ] = ()
    known: Annotated[
        Takes, Meta(description="Only when this has a value is a missing `published` an observed absence.")
    ] = ()


class RoleRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Roles: one for each item of a list in the target, one for each value of a Pod label, or one by name."""

    each: Annotated[str | None, Meta(description="Path in the target to a list; each item is a role.")] = None
    each_label: Annotated[str | None, Meta(description="Pod label; each value found is a role.")] = None
    name: Annotated[Takes, Meta(description="Its name; with `eachLabel` the label's value when absent.")] = ()
    when: Annotated[Takes, Meta(description="The role exists only when this has a value.")] = ()
    unless: Annotated[Takes, Meta(description="The role does not exist when this has a value.")] = ()
    when_pods: Annotated[bool, Meta(description="The role exists only when a Pod is of it.")] = False
    kind: Annotated[Takes, Meta(description="Server, Encode, Prefill or Decode; Server when absent.")] = ()
    desired: Annotated[Count | None, Meta(description="Replicas that are wanted.")] = None
    size: Annotated[Count | None, Meta(description="Pods of one replica; 1 when absent.")] = None
    labels: Annotated[Texts, Meta(description="Labels of its Pods, as in `pods.labels`.")] = ()
    other_labels: Annotated[Texts, Meta(description="Labels that will do instead of all of `labels`.")] = ()
    only: Annotated[bool, Meta(description="Where it is the only role, every Pod of the deployment is of it.")] = False
    workloads: Annotated[
        tuple[OwnedCount, ...],
        Meta(description="Objects that keep its Pods: where nothing says how many replicas are wanted, they do."),
    ] = ()
    engine: Annotated[EngineRule | None, Meta(description="Instead of the platform's `engine`.")] = None
    command: Annotated[str | None, Meta(description="Path in the item to the command that replaces the engine's.")] = (
        None
    )
    arguments: Annotated[
        str | None, Meta(description="Path in the item to the engine's arguments; absent: those of its Pods.")
    ] = None
    environment: Annotated[str | None, Meta(description="Path in the item to a list of `{name, value}`.")] = None
    protocol: Annotated[Takes, Meta(description="Protocol of the serving port; TCP when absent.")] = ()
    elastic: Annotated[Takes, Meta(description="The role is one elastic collective when this has a value.")] = ()
    ancillary: Annotated[
        Texts, Meta(description="Labels of Pods that belong to an elastic role and are no members of it.")
    ] = ()


class LeaderRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which members of a replica answer requests. Absent: all."""

    seat: Annotated[int | None, Meta(description="The one on this seat; a Pod without a seat is on 0.", ge=0)] = None
    labels: Annotated[Texts, Meta(description="Those with these labels.")] = ()
    ranks_when_external: Annotated[
        bool, Meta(description="All of them where the engine's arguments balance ranks externally (Server roles).")
    ] = False


class Replacement(StrEnum):
    """How a replacement under way shows."""

    PODS = "Pods"
    REVISION = "Revision"
    UNOBSERVED = "Unobserved"


class ReplicaRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How Pods form replicas. Without `ordinal` and `group` each Pod is one; with both, one number of one group is."""

    ordinal: Annotated[Takes, Meta(description="The replica's number.")] = ()
    group: Annotated[Takes, Meta(description="Pods with one value form a replica, where nothing numbers them.")] = ()
    unnumbered: Annotated[
        bool, Meta(description="A Pod that nothing numbers is a replica with those of its `group`, else by itself.")
    ] = False
    seat: Annotated[Takes, Meta(description="The member's place in its replica.")] = ()
    total: Annotated[Takes, Meta(description="Members the replica was built with, as each Pod says.")] = ()
    total_absent: Annotated[int | None, Meta(description="What an absent `total` means.", ge=1)] = None
    revision: Annotated[Takes, Meta(description="The template a Pod was made from.")] = ()
    instance: Annotated[
        Takes,
        Meta(description="The operator's own unit that a Pod belongs to, where it counts those and not replicas."),
    ] = ()
    leader: Annotated[LeaderRule | None, Meta(description="Which members serve.")] = None
    ranks: Annotated[
        str | None,
        Meta(
            description="Path in the target to ports: two or more are the listeners of each Pod's data-parallel ranks, in order."
        ),
    ] = None
    retiring: Annotated[
        Takes,
        Meta(description="A Pod with a value here is being retired; its replica with it, and the value says why."),
    ] = ()
    replacement: Annotated[Replacement, Meta(description="Where a replacement shows.")] = Replacement.UNOBSERVED
    managed_when: Annotated[
        Takes, Meta(description="Tells that the operator rendered a Pod's command; absent on a Pod: a take-over.")
    ] = ()


class RouterRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The router in front of the roles. Its Pods are looked for in the target's namespace."""

    when: Annotated[Takes, Meta(description="There is a router only when this has a value.")] = ()
    when_pods: Annotated[bool, Meta(description="There is a router when a Pod of it exists.")] = False
    name: Annotated[Takes, Meta(description="Its name.")]
    software: Annotated[Takes, Meta(description="Name of the router's table, as `llm_d`.")]
    version: Annotated[Takes, Meta(description="Its version.")] = ()
    desired: Annotated[Count | None, Meta(description="Replicas that are wanted.")] = None
    pods: Annotated[PodRule, Meta(description="Its Pods.")]
    container: Annotated[
        tuple[str, ...], Meta(description="Its container, the first of these that a Pod has; else the first at all.")
    ] = ()
    api: Annotated[EndpointRule | None, Meta(description="Where it serves.")] = None
    metrics: Annotated[EndpointRule | None, Meta(description="Where it tells its series.")] = None
    workload: Annotated[
        WorkloadRule | None, Meta(description="The object that keeps its Pods, for whether it is deployed and ready.")
    ] = None


class StoreRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A KV-cache store that the target is attached to."""

    name: Annotated[Takes, Meta(description="Its name; no store when it has no value.")]
    software: Annotated[Takes, Meta(description="Name of the store's table, as `mooncake`.")]
    tenant: Annotated[Takes, Meta(description="The deployment's tenant in it.")] = ()
    connector: Annotated[Takes, Meta(description="How engines are attached.")] = ()


class PlatformDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document, below `apiVersion` and `kind`."""

    name: Annotated[Name, Meta(description="Short name; observations are named after it.")]
    title: Annotated[str, Meta(description="What people call it.")] = ""
    blind: Annotated[tuple[str, ...], Meta(description="What cannot be seen on it, for its users.")] = ()
    target: Annotated[TargetRule, Meta(description="What stands for a deployment.")]
    sources: Annotated[tuple[SourceRule, ...], Meta(description="Further kinds of objects to read.")] = ()
    model: Annotated[Takes, Meta(description="The served model name.")] = ()
    endpoint_type: Annotated[Takes, Meta(description="Chat, Embeddings or Rerank; Chat when absent.")] = ()
    engine: Annotated[EngineRule, Meta(description="The engine of its roles.")] = EngineRule()
    pods: Annotated[PodRule, Meta(description="The engine Pods of a deployment.")]
    container: Annotated[
        tuple[str, ...], Meta(description="Serving container, the first of these that a Pod has; else the first.")
    ] = ()
    ready: Annotated[
        tuple[str, ...],
        Meta(description="Pod conditions that must all be True for a ready member; `x?`: where a Pod has it."),
    ] = ("Ready",)
    roles: Annotated[tuple[RoleRule, ...], Meta(description="Its roles; a Pod takes the first that fits.")]
    replicas: Annotated[ReplicaRule, Meta(description="How Pods form replicas.")] = ReplicaRule()
    api: Annotated[EndpointRule | None, Meta(description="Where an engine serves.")] = None
    metrics: Annotated[EndpointRule | None, Meta(description="Where an engine tells its series.")] = None
    events: Annotated[EventsRule, Meta(description="KV-event publishers.")] = EventsRule()
    router: Annotated[RouterRule | None, Meta(description="The router.")] = None
    stores: Annotated[tuple[StoreRule, ...], Meta(description="KV-cache stores.")] = ()
    status: Annotated[StatusRule, Meta(description="The operator's voice.")] = StatusRule()
    facts: Annotated[FactsRule, Meta(description="What else the platform says.")] = FactsRule()
    reasons: Annotated[tuple[ReasonRule, ...], Meta(description="Advice for its reasons.")] = ()
    notes: Annotated[tuple[NoteRule, ...], Meta(description="What its users ask, answered beside an explanation.")] = ()

    def kept(self, source: SourceRule) -> tuple[str, ...]:
        """What is kept of a source's objects: what it names, and what tells a 0 that was left out from a silence."""
        workload = self.router.workload if self.router is not None else None
        if not source.keep or workload is None or workload.source != source.name or workload.observed in source.keep:
            return source.keep
        return (*source.keep, workload.observed)
