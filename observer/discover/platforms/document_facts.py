"""Keys of platform documents about what a platform says beside its Pods: status, records, objects referred to, advice."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from observer.discover.platforms.values import Takes, Texts


class WorkloadRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that keeps Pods."""

    source: Annotated[str, Meta(description="Name of a source.")]
    name: Annotated[Takes, Meta(description="Its name.")]
    ready: Annotated[
        str,
        Meta(description="Path in it to the number of ready replicas; absent is 0 once `observed` is there."),
    ] = "status.readyReplicas"
    observed: Annotated[
        str, Meta(description="Path in it that is there once somebody has reported on it; kept without being named.")
    ] = "status.observedGeneration"


class ObjectRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object that the target refers to."""

    source: Annotated[str, Meta(description="Name of a source.")]
    name: Annotated[Takes, Meta(description="Its name; nothing is referred to when it has no value.")]


class SelectorOf(ObjectRule, frozen=True, kw_only=True, rename="camel"):
    """An object that selects Pods."""

    path: Annotated[str, Meta(description="Path in it to the mapping of labels, or to a LabelSelector.")] = (
        "spec.selector"
    )


class BindingRule(ObjectRule, frozen=True, kw_only=True, rename="camel"):
    """The binding that grants a cache. Paths are in the binding."""

    ready: Annotated[Texts, Meta(description="Path in the binding to the values (`a|b`) that mean ready.")] = ()
    domain: Annotated[str | None, Meta(description="Path that is there once its domain can be read.")] = None


class QuotaRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects that reserve quota for replicas: those whose owners are Pods of the deployment."""

    source: Annotated[str, Meta(description="Name of a source.")]
    reserved: Annotated[str, Meta(description="Condition type that is True once quota is held.")]
    preempted: Annotated[tuple[str, ...], Meta(description="Condition types, or `Type/Reason`, of a preemption.")] = ()
    active: Annotated[str | None, Meta(description="Path that is false once it was deactivated.")] = None
    flavors: Annotated[str | None, Meta(description="Path to mappings of resource to flavor.")] = None
    common: Annotated[tuple[str, ...], Meta(description="Resources that are no accelerators.")] = ()


class WeightsRule(ObjectRule, frozen=True, kw_only=True, rename="camel"):
    """The model artifact whose weights the Pods need."""

    resolved: Annotated[str, Meta(description="Path in the artifact that is there once it is resolved.")]
    delivery: Annotated[Takes, Meta(description="`Mount` or `Download`.")] = ()


class StatusRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the operator's own voice stands in the target."""

    conditions: Annotated[str, Meta(description="Path to its conditions.")] = "status.conditions"
    observed_generation: Annotated[str, Meta(description="Path to the generation it saw.")] = (
        "status.observedGeneration"
    )
    phase: Annotated[str, Meta(description="Path to its phase.")] = "status.phase"
    message: Annotated[str, Meta(description="Path to the words beside the phase.")] = "status.phaseMessage"
    words: Annotated[Texts, Meta(description="Further words that are shown as written: name, and path.")] = ()


class Course(StrEnum):
    """What a reason calls for."""

    CLEARS = "ClearsByItself"
    ACT = "Act"
    WAIT = "WaitThenAct"
    OVER = "Over"


class ReasonRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What to do about one reason of the operator."""

    condition: Annotated[str, Meta(description="Condition type; empty: whichever carries the reason.")] = ""
    reason: Annotated[str, Meta(description="Reason; empty: any reason of the condition.")]
    in_phase: Annotated[str, Meta(description="The operator's phase that it is read with; empty: any.")] = ""
    notice: Annotated[bool, Meta(description="It is told also where its condition is True.")] = False
    course: Annotated[Course, Meta(description="Whether waiting helps.")]
    whose: Annotated[str, Meta(description="Who can do something about it.")]
    hint: Annotated[str, Meta(description="One sentence of help.")]


class OwnedCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A number in the objects of a source that the target owns; several are added."""

    source: Annotated[str, Meta(description="Name of a source.")]
    path: Annotated[str, Meta(description="Path in the object to the number.")] = "spec.replicas"


class NoteRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One answer to what users of the platform ask. Told with every explanation in which it has something to say."""

    topic: Annotated[str, Meta(description="What it is about, in a few words.")]
    when: Annotated[Takes, Meta(description="It is told only when this has a value.")] = ()
    value: Annotated[Takes, Meta(description="What `{value}` stands for; without a value it is not told.")] = ()
    says: Annotated[str, Meta(description="One or two sentences.")]


class EventRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An Event about the target that somebody who asks for an explanation is told. Read then, and not before."""

    reason: Annotated[str, Meta(description="Reason of the Event.")]
    course: Annotated[Course, Meta(description="Whether waiting helps.")]
    whose: Annotated[str, Meta(description="Who can do something about it.")]
    hint: Annotated[str, Meta(description="One sentence of help.")]


class UrlRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects that the target owns and that publish a URL, asked once when somebody wants an explanation."""

    source: Annotated[str, Meta(description="Name of the source that has them.")]
    url: Annotated[str, Meta(description="Path in the object to the URL.")]
    path: Annotated[str, Meta(description="Appended to the URL.")] = "/v1/models"


class CountsRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The operator's counts of its own units (`replicas.instance`), compared with what serves."""

    wanted: Annotated[str, Meta(description="Path to the units that are wanted.")]
    ready: Annotated[str, Meta(description="Path to the units it calls ready.")]
    total: Annotated[str, Meta(description="Path to the units that exist.")]


class PoolRule(ObjectRule, frozen=True, kw_only=True, rename="camel"):
    """The cache pool that the target is attached to, for the address that it tells itself."""

    path: Annotated[str, Meta(description="Path in the pool to its address for clients.")]


class ScalerRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Annotations of the target that name who owns the replica count."""

    binding: Annotated[str, Meta(description="Annotation that names the owner.")]
    decision: Annotated[str, Meta(description="Annotation that names the last decision.")]
    source: Annotated[
        str | None, Meta(description="Name of the source that has the owners, to see whether it exists.")
    ] = None


class FactsRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the platform says beside its Pods, and what it may be believed."""

    managed: Annotated[bool, Meta(description="An operator renders the engine's arguments and readiness gates.")] = (
        False
    )
    declared: Annotated[
        bool, Meta(description="Retirement and replacement count as absent where nothing announces them.")
    ] = True
    order: Annotated[tuple[str, ...], Meta(description="Condition types in the order in which they are read.")] = ()
    endpoint: Annotated[Takes, Meta(description="The deployment's published address.")] = ()
    endpoint_published: Annotated[
        Takes, Meta(description="With a value here a missing `endpoint` is an observed absence.")
    ] = ()
    port: Annotated[Takes, Meta(description="The serving port of its Service.")] = ()
    retirement: Annotated[str | None, Meta(description="Path to the record of a running retirement.")] = None
    contract: Annotated[str | None, Meta(description="Path to the published router contract.")] = None
    offered: Annotated[
        tuple[str, ...],
        Meta(description="Labels of the contract's selectors that the operator puts on Pods that it offers just now."),
    ] = ()
    scaler: Annotated[ScalerRule | None, Meta(description="Who owns the replica count.")] = None
    cache: Annotated[Takes, Meta(description="A cache is declared when this has a value.")] = ()
    binding: Annotated[BindingRule | None, Meta(description="The binding of that cache.")] = None
    pool: Annotated[PoolRule | None, Meta(description="The pool of that cache.")] = None
    quota: Annotated[QuotaRule | None, Meta(description="Quota of the replicas.")] = None
    weights: Annotated[WeightsRule | None, Meta(description="The model artifact.")] = None
    counts: Annotated[CountsRule | None, Meta(description="The operator's own counts.")] = None
    events: Annotated[tuple[EventRule, ...], Meta(description="Events about the target that are told on demand.")] = ()
    urls: Annotated[UrlRule | None, Meta(description="Published URLs that are checked on demand.")] = None
    records: Annotated[str, Meta(description="Name of the reader of its records of a form of its own, as `ome`.")] = ""
    reserved_namespaces: Annotated[
        tuple[str, ...], Meta(description="Namespaces that never get a queue; none named: not known.")
    ] = ()
