"""Reads a canary analysis from a plain document and refuses what cannot be judged, naming each field.

The same readers take an OME plan (`read_steps`, and `read_source` of `canary_source`) and a `CanaryAnalysis` object (`decode`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from router_contract.canary import (
    Analysis,
    BucketPolicy,
    CacheGuard,
    CanaryAnalysis,
    EmptyMeans,
    MeasuredBy,
    Metric,
    NativeKind,
    NativeMetric,
    NonFiniteSeries,
    OnInconclusive,
    Operator,
    Pause,
    Procedure,
    PromqlMetric,
    Relative,
    Step,
    TargetRef,
    WarmUp,
    Warnings,
)
from router_contract.canary_source import read_source
from router_contract.fields import FieldFault, Fields, parse_number
from router_contract.signals import SIGNALS, Kind

API_VERSION: Final = "observer.modeldeployment.io/v1alpha1"
KIND: Final = "CanaryAnalysis"
COMPONENTS: Final = ("router", "engine")
MAX_STEPS: Final = 20
MAX_METRICS: Final = 10
_NATIVE_KEYS: Final = (
    "native",
    "relative",
    "minSamples",
    "test",
    "alpha",
    "bucketPolicy",
    "maxMissingFraction",
    "cacheGuard",
)
_QUERY_KEYS: Final = ("query", "trafficQuery", "emptyMeans", "nonFiniteSeries", "warnings", "timeout")


def decode(document: Any) -> CanaryAnalysis | tuple[FieldFault, ...]:
    """A `CanaryAnalysis` object (as JSON or YAML gives it), or every fault found in it."""
    faults: list[FieldFault] = []
    root = Fields(document, "", faults)
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if root.text(key, required=True, wanted=wanted) not in {"", wanted}:
            root.fault(key, wanted)
    root.has("status")
    meta = root.child("metadata", required=True)
    spec = root.child("spec", required=True)
    root.done()
    if meta is None or spec is None:
        return tuple(faults)
    target = spec.child("targetRef", required=True)
    kind, name = (
        ("", "") if target is None else (target.text("kind", required=True), target.text("name", required=True))
    )
    if target is not None:
        target.done()
    component = spec.text("component", required=True)
    if component and component not in COMPONENTS:
        spec.fault("component", "one of " + ", ".join(COMPONENTS))
    stable, canary = _revision(spec, "stable"), _revision(spec, "canary")
    if stable and stable == canary:
        faults.append(FieldFault("spec.canary.revision", f'"{canary}", the stable one too', "two different revisions"))
    source = spec.child("source")
    made = CanaryAnalysis(
        namespace=meta.text("namespace") or "default",
        name=meta.text("name", required=True),
        target=TargetRef(kind=kind, name=name),
        component=component,
        stable=stable,
        canary=canary,
        source=None if source is None else read_source(source),
        ready_timeout=spec.seconds("readyTimeout", above_zero=True),
        steps=read_steps(spec),
    )
    spec.done()
    return tuple(faults) if faults else made


def read_steps(owner: Fields, name: str = "steps") -> tuple[Step, ...]:
    """The list of steps under a key; faults are recorded in ``owner``."""
    steps = tuple(_step(each) for each in owner.items(name, 1, MAX_STEPS))
    weights = [step.traffic for step in steps if step.traffic is not None]
    if weights != sorted(weights):
        owner.faults.append(FieldFault(owner.at(name), f"traffic {weights}", "traffic that never falls"))
    if weights and steps[-1].traffic != 100:
        owner.faults.append(FieldFault(owner.at(name), f"traffic {weights}", "a last step with traffic 100"))
    return steps


def _revision(spec: Fields, name: str) -> str:
    side = spec.child(name, required=True)
    if side is None:
        return ""
    revision = side.text("revision", required=True)
    side.done()
    return revision


def _step(fields: Fields) -> Step:
    pause, analysis = fields.child("pause"), fields.child("analysis")
    fields.has("capacity")
    made = Step(
        traffic=fields.whole("traffic", None, 0, 100),
        pause=None if pause is None else Pause(seconds=pause.seconds("duration")),
        analysis=None if analysis is None else _analysis(analysis),
    )
    if pause is not None:
        pause.done()
    fields.done()
    return made


def _analysis(fields: Fields) -> Analysis:
    interval = fields.seconds("interval", above_zero=True)
    if interval is None and not fields.has("interval"):
        fields.fault("interval", "a duration such as 30s or 5m, above 0")
    limit = fields.whole("failureLimit", None, 1, 1000)
    if limit is None and not fields.has("failureLimit"):
        fields.fault("failureLimit", "a whole number from 1 to 1000")
    warm = fields.child("warmUp")
    metrics = tuple(_metric(each) for each in fields.items("metrics", 1, MAX_METRICS))
    _unique(fields, (metric.name for metric in metrics))
    exclude = fields.flag("excludeWarmupFromStall", default=True) if fields.has("excludeWarmupFromStall") else None
    made = Analysis(
        interval=interval or 1.0,
        failure_limit=limit or 1,
        metrics=metrics,
        initial_delay=fields.seconds("initialDelay") or 0.0,
        on_inconclusive=fields.word("onInconclusive", OnInconclusive, OnInconclusive.HOLD) or OnInconclusive.HOLD,
        consecutive_failure_limit=fields.whole("consecutiveFailureLimit", 0, 0, 1000) or 0,
        min_passes=fields.whole("minPasses", 1, 1, 1000) or 1,
        stall_timeout=fields.seconds("stallTimeout", above_zero=True),
        exclude_warm_up=exclude,
        warm_up=WarmUp() if warm is None else _warm_up(warm),
        deadline=fields.seconds("deadline", 30.0, above_zero=True) or 30.0,
    )
    fields.done()
    return made


def _unique(fields: Fields, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name and name in seen:
            where = f"{fields.at('metrics')}[{place}].name"
            fields.faults.append(FieldFault(where, f'"{name}" a second time', "each name once"))
        seen.add(name)


def _warm_up(fields: Fields) -> WarmUp:
    made = WarmUp(seconds=fields.seconds("time") or 0.0, requests=fields.whole("requests", 0, 0, 1_000_000) or 0)
    fields.done()
    return made


def _metric(fields: Fields) -> Metric:
    name = fields.text("name", required=True, most=63)
    native, query = fields.has("native"), fields.has("query")
    if native == query:
        fields.fault("query", "either query or native, and not both")
    for key in _QUERY_KEYS if native else _NATIVE_KEYS:
        if native != query and fields.has(key):
            fields.fault(key, f"nothing: it does not go with {'native' if native else 'query'}")
    relative = native and fields.has("relative")
    operator, text, limit = _threshold(fields, relative=relative)
    measure = _native(fields, operator, limit) if native else _promql(fields)
    if isinstance(measure, NativeMetric) and measure.relative is not None:
        limit = measure.relative.margin
        text = f"{limit:g}" if float(f"{limit:g}") == limit else repr(limit)
    made = Metric(
        name=name,
        operator=operator,
        threshold=text,
        limit=limit,
        measure=measure,
        required=fields.flag("required", default=True),
    )
    fields.done()
    return made


def _threshold(fields: Fields, *, relative: bool) -> tuple[Operator, str, float]:
    if relative:
        for key in ("operator", "threshold"):
            if fields.has(key):
                fields.fault(key, "nothing: a relative metric compares with stable times its margin")
        return Operator.LTE, "", 0.0
    operator = fields.word("operator", Operator)
    text = fields.text("threshold", required=True, most=64, wanted="a finite number written as text, such as 0.05")
    limit = parse_number(text)
    if text and limit is None:
        fields.fault("threshold", "a finite number written as text, such as 0.05")
    return operator or Operator.LT, text, limit or 0.0


def _promql(fields: Fields) -> PromqlMetric:
    empty = fields.word("emptyMeans", EmptyMeans, EmptyMeans.NO_DATA) or EmptyMeans.NO_DATA
    traffic = fields.text("trafficQuery", most=16_384) or None
    if empty is EmptyMeans.ZERO and traffic is None:
        fields.fault("trafficQuery", "a query that proves traffic, because emptyMeans is zero")
    query = fields.text("query", most=16_384) if fields.has("query") else ""
    return PromqlMetric(
        query=query,
        traffic_query=traffic,
        empty_means=empty,
        non_finite=fields.word("nonFiniteSeries", NonFiniteSeries, NonFiniteSeries.IGNORE) or NonFiniteSeries.IGNORE,
        warnings=fields.word("warnings", Warnings, Warnings.INCONCLUSIVE) or Warnings.INCONCLUSIVE,
        timeout=fields.seconds("timeout", 5.0, above_zero=True) or 5.0,
    )


def _native(fields: Fields, operator: Operator, limit: float) -> NativeMetric:
    what = fields.child("native", required=True)
    if what is None:
        return NativeMetric(kind=NativeKind.RATIO, signal="")
    kind = what.word("kind", NativeKind) or NativeKind.RATIO
    histogram = kind in {NativeKind.QUANTILE, NativeKind.MEAN}
    wanted = Kind.HISTOGRAM if histogram else Kind.COUNTER
    signal = _signal(what, "signal", wanted)
    total = _signal(what, "total", Kind.COUNTER) if kind is NativeKind.RATIO else None
    quantile = what.number("quantile", 0.0, 0.0, 1.0, open_ends=True) if kind is NativeKind.QUANTILE else None
    if quantile == 0.0 and not what.has("quantile"):
        what.fault("quantile", "a number between 0 and 1")
    where = what.child("where")
    labels = () if where is None else tuple((key, where.text(key, required=True)) for key in where.values)
    by = what.word("measuredBy", MeasuredBy) if what.has("measuredBy") else None
    what.done()
    relative, guard = fields.child("relative"), fields.child("cacheGuard")
    if relative is not None and kind is NativeKind.RATE:
        fields.fault("relative", "nothing: a rate follows the traffic share, not the build; compare a ratio")
    if relative is None and kind is NativeKind.RATIO and fields.has("threshold") and not 0 <= limit <= 1:
        fields.fault("threshold", "a share from 0 to 1")
    if relative is None and (operator, limit) in {(Operator.LT, 0.0), (Operator.GT, 1.0)} and kind is NativeKind.RATIO:
        fields.fault("threshold", "a share that can pass: nothing is below 0 or above 1")
    made = NativeMetric(
        kind=kind,
        signal=signal,
        where=labels,
        total=total,
        quantile=quantile,
        measured_by=by,
        relative=None if relative is None else Relative(margin=relative.number("margin", 1.25, 1.0, 100.0)),
        min_samples=fields.whole("minSamples", None, 1, 10_000_000),
        test=fields.word("test", Procedure, Procedure.SEQUENTIAL) or Procedure.SEQUENTIAL,
        alpha=fields.number("alpha", 0.05, 0.0, 0.5, open_ends=True),
        bucket_policy=fields.word("bucketPolicy", BucketPolicy, BucketPolicy.BRACKET) or BucketPolicy.BRACKET,
        max_missing=fields.number("maxMissingFraction", 0.0, 0.0, 1.0),
        cache_guard=CacheGuard() if guard is None else _guard(guard),
    )
    if relative is not None:
        relative.done()
    return made


def _guard(fields: Fields) -> CacheGuard:
    made = CacheGuard(
        enabled=fields.flag("enabled", default=True),
        hit_rate=fields.number("hitRate", 0.2, 0.0, 1.0),
        prompt_length=fields.number("promptLength", 1.5, 1.0, 1000.0),
    )
    fields.done()
    return made


def _signal(fields: Fields, name: str, kind: Kind) -> str:
    text = fields.text(name, required=True, wanted=f"a {kind} signal")
    found = SIGNALS.get(text)
    if text and (found is None or found.kind is not kind):
        fields.fault(name, f"a {kind} signal such as " + ", ".join(sorted(_examples(kind))))
    return text


def _examples(kind: Kind) -> list[str]:
    return [signal.id for signal in SIGNALS.values() if signal.kind is kind][:4]
