"""The one Settings tree, and reading configuration files: every fault of every file at once, or a whole configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from ruamel.yaml.nodes import MappingNode, ScalarNode

from exporters.otlp_options import OtlpSettings
from observer.collect.http_options import HttpSettings
from observer.collect.limit_options import LimitSettings
from observer.collect.options import BodyLimits, CanarySettings, KvEventSettings, ScrapeSettings, SecuritySettings
from observer.discover.canaries import canaries, check_providers
from observer.discover.fleet_document import DeploymentDocument, FleetDocument
from observer.discover.static import deployments, record_duplicates
from observer.kube.aggregated_options import AggregatedSettings, check_files_together
from observer.kube.options import KubernetesSettings
from observer.kube.replica_options import check_lease
from observer.yamldoc.decode import Tracker
from observer.yamldoc.faults import Fault, did_you_mean, shown
from observer.yamldoc.nodes import Document, expand, read_bytes, read_documents
from observer.yamldoc.quantities import Duration, show_duration, show_size
from observer.yamldoc.shape import Row
from observer.yamldoc.shape import describe as describe_struct
from router_contract.canary import CanaryAnalysis
from router_contract.targets import Deployment

GROUP = "observer.modeldeployment.io"
API_VERSION = f"{GROUP}/v1alpha1"
KINDS = ("Settings", "Fleet", "CanaryAnalysis")


class RouterSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How routers' own views of their workers are read. Durations in seconds."""

    view_period: Annotated[
        Duration, Meta(ge=0.2, le=300.0, description="Each router's view is read once in this time.")
    ] = 5.0
    view_timeout: Annotated[
        Duration, Meta(ge=0.05, le=60.0, description="One read of a view; shorter than the period.")
    ] = 2.0
    view_valid: Annotated[
        Duration, Meta(ge=1.0, le=600.0, description="A view counts for this long; one lost read never expires it.")
    ] = 15.0


class JudgingSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When conclusions are drawn. Durations in seconds."""

    period: Annotated[Duration, Meta(ge=0.1, le=60.0, description="Everything is judged once in this time.")] = 1.0
    stall_after: Annotated[
        Duration, Meta(ge=5.0, le=3600.0, description="Work present and no progress for this long is a stall.")
    ] = 60.0


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Over which time rates, means and quantiles are taken. Durations in seconds."""

    span: Annotated[Duration, Meta(ge=1.0, le=300.0, description="Length of the rolling window.")] = 60.0
    max: Annotated[
        Duration, Meta(ge=1.0, le=3600.0, description="Two reads further apart than this are never joined.")
    ] = 300.0
    expire_after: Annotated[
        Duration,
        Meta(
            ge=1.0, le=3600.0, description="A value is Fresh for two periods and a timeout, then Stale until this age."
        ),
    ] = 300.0


class FileSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How configuration files are followed while we run."""

    watch_period: Annotated[
        Duration, Meta(ge=0.1, le=3600.0, description="Files are looked at for changes once in this time.")
    ] = 2.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be told to the observer, with the values that hold when nothing is said."""

    api_version: Annotated[str, Meta(description=f"`{API_VERSION}`.")] = API_VERSION
    kind: Annotated[str, Meta(description="`Settings`.")] = "Settings"
    scrape: Annotated[ScrapeSettings, Meta(description="Reading expositions.")] = ScrapeSettings()
    routers: Annotated[RouterSettings, Meta(description="Reading routers' views.")] = RouterSettings()
    judging: Annotated[JudgingSettings, Meta(description="Drawing conclusions.")] = JudgingSettings()
    windows: Annotated[WindowSettings, Meta(description="Rates, means and quantiles.")] = WindowSettings()
    limits: Annotated[LimitSettings, Meta(description="Bounds; reaching one is visible.")] = LimitSettings()
    http: Annotated[HttpSettings, Meta(description="Our own listener.")] = HttpSettings()
    security: Annotated[SecuritySettings, Meta(description="What we refuse.")] = SecuritySettings()
    kv_events: Annotated[KvEventSettings, Meta(description="KV-event publishers.")] = KvEventSettings()
    canary: Annotated[CanarySettings, Meta(description="Where the queries of canary analyses may go.")] = (
        CanarySettings()
    )
    files: Annotated[FileSettings, Meta(description="Following configuration files.")] = FileSettings()
    otlp: Annotated[OtlpSettings, Meta(description="Pushing metrics over OTLP.")] = OtlpSettings()
    kubernetes: Annotated[KubernetesSettings, Meta(description="Watching a cluster.")] = KubernetesSettings()
    aggregated: Annotated[AggregatedSettings, Meta(description="The aggregated API.")] = AggregatedSettings()

    @property
    def body_limits(self) -> BodyLimits:
        """The limits as the collector takes them."""
        own = min(self.limits.body, 1 << 20)
        return BodyLimits(body=self.limits.body, own=own, shared=self.limits.shared_bodies)


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What a set of files says. ``notices`` is what is wrong but does not stop us from watching."""

    settings: Settings = Settings()
    deployments: tuple[Deployment, ...] = ()
    canaries: tuple[CanaryAnalysis, ...] = ()
    notices: tuple[Fault, ...] = ()


class SettingsError(Exception):
    """Files that cannot be used; ``faults`` has every reason, in order of file and line, ``notices`` what is beside."""

    def __init__(self, faults: Iterable[Fault], notices: Iterable[Fault] = ()) -> None:
        self.faults = tuple(faults)
        self.notices = tuple(notices)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def load_files(paths: Sequence[Path]) -> Configuration:
    """The configuration of files and folders; `SettingsError` with every fault when any of it cannot be used.

    Programs that no table knows and files that do not exist yet are notices, not faults.
    """
    configuration, faults = _read(paths)
    if faults:
        raise SettingsError(sorted(faults, key=lambda fault: fault.order), configuration.notices)
    return configuration


def load_analyses(paths: Sequence[Path]) -> tuple[CanaryAnalysis, ...]:
    """The canary analyses of files, whatever deployment they name; `SettingsError` with every fault.

    Other documents in the files must be sound and are not used.
    """
    faults: list[Fault] = []
    found = _documents(paths, faults)
    made = canaries(found["CanaryAnalysis"], None, faults)
    if not made and not faults:
        faults.append(Fault(file=str(paths[0]), found="no `CanaryAnalysis`", wanted="at least one"))
    if faults:
        raise SettingsError(sorted(faults, key=lambda fault: fault.order))
    return made


def check_files(paths: Sequence[Path]) -> list[Fault]:
    """Every fault and every notice of files and folders, in order of file and line; empty when all is well."""
    configuration, faults = _read(paths)
    return sorted([*faults, *configuration.notices], key=lambda fault: fault.order)


def describe() -> list[Row]:
    """The reference of both kinds: one row for each key, its path beginning with the kind."""
    return describe_struct(Settings, "Settings.") + describe_struct(FleetDocument, "Fleet.")


def _read(paths: Sequence[Path]) -> tuple[Configuration, list[Fault]]:
    faults: list[Fault] = []
    found = _documents(paths, faults)
    settings = _settings(found["Settings"], faults)
    fleets, notices = _fleets(found["Fleet"], settings, faults)
    analyses = canaries(found["CanaryAnalysis"], fleets, faults)
    made = Configuration(settings=settings, deployments=tuple(fleets), canaries=analyses, notices=tuple(notices))
    return made, faults


def _documents(paths: Sequence[Path], faults: list[Fault]) -> dict[str, list[Document]]:
    """Every document of ours by its kind; what cannot be read is a fault."""
    found: dict[str, list[Document]] = {kind: [] for kind in KINDS}
    files = expand(paths)
    faults += [
        Fault(file=str(path), found="a folder without YAML files", wanted="`*.yaml` files")
        for path in paths
        if path.is_dir() and not any(file.parent == path for file in files)
    ]
    for file in dict.fromkeys(files):
        data = read_bytes(file)
        if isinstance(data, Fault):
            faults.append(data)
            continue
        documents, unreadable = read_documents(str(file), data)
        faults += unreadable
        if not documents and not unreadable:
            faults.append(Fault(file=str(file), found="no document", wanted="a document with `apiVersion` and `kind`"))
        for document in documents:
            kind = _kind(document, faults)
            if kind is not None:
                found[kind].append(document)
    return found


def _kind(document: Document, faults: list[Fault]) -> str | None:
    """The kind of a document that is ours and of our version; anything else is a fault."""
    texts = {
        str(key.value): value for key, value in document.root.value if isinstance(key, ScalarNode)
    }  # a second key of a name is the decoder's fault to report

    def fault(key: str, found: str, wanted: str, hint: str = "") -> None:
        mark = (texts.get(key) or document.root).start_mark
        line, column = mark.line + 1, mark.column + 1
        faults.append(
            Fault(file=document.file, line=line, column=column, path=key, found=found, wanted=wanted, hint=hint)
        )

    version = _text(texts.get("apiVersion"))
    kind = _text(texts.get("kind"))
    ours = version is not None and version.startswith(f"{GROUP}/")
    if version != API_VERSION:
        hint = "This observer reads v1alpha1; the file is for another release." if ours else ""
        fault("apiVersion", shown(version) if version else "nothing", f"`{API_VERSION}`", hint)
    if kind not in KINDS:
        wanted = " or ".join(f"`{each}`" for each in KINDS)
        fault("kind", shown(kind) if kind else "nothing", wanted, did_you_mean(kind or "", KINDS))
    # A document of another release has other keys; one whose version is only misspelt is read for its other faults.
    return kind if kind in KINDS and version is not None and (version == API_VERSION or not ours) else None


def _text(node: Any) -> str | None:
    return str(node.value) if isinstance(node, ScalarNode) else None


def _settings(documents: list[Document], faults: list[Fault]) -> Settings:
    """One tree of every `Settings` document; the same key in two of them is a fault, not a silent choice."""
    if not documents:
        return Settings()
    root = documents[0].root
    for document in documents[1:]:
        root = _merged(root, document.root, top=True)
    tracker = Tracker(documents[0].file)
    settings = tracker.decode(root, Settings) or Settings()
    _check_relations(settings, tracker)
    check_files_together(settings.aggregated, tracker)
    check_lease(settings.kubernetes.lease, tracker)
    check_providers([each.name for each in settings.canary.providers], settings.canary.default_provider, tracker)
    faults += tracker.faults
    return settings


def _merged(one: MappingNode, other: MappingNode, *, top: bool = False) -> MappingNode:
    """Both mappings' keys; mappings under the same key are merged likewise, other repeated keys stay twice."""
    pairs = list(one.value)
    for key, value in other.value:
        name = _text(key)
        if top and name in {"apiVersion", "kind"}:
            continue
        at = next((index for index, (mine, _) in enumerate(pairs) if name is not None and _text(mine) == name), None)
        if at is not None and isinstance(pairs[at][1], MappingNode) and isinstance(value, MappingNode):
            pairs[at] = (pairs[at][0], _merged(pairs[at][1], value))
        else:
            pairs.append((key, value))
    return MappingNode(one.tag, pairs, start_mark=one.start_mark, end_mark=one.end_mark)


def _check_relations(settings: Settings, tracker: Tracker) -> None:
    """What one key demands of another. The fault stands at whichever of the two a file names."""
    scrape, routers, windows, limits = settings.scrape, settings.routers, settings.windows, settings.limits
    rows = (
        ("scrape.timeout", scrape.timeout, "below", "scrape.period", scrape.period),
        ("routers.viewTimeout", routers.view_timeout, "below", "routers.viewPeriod", routers.view_period),
        ("routers.viewValid", routers.view_valid, "above", "routers.viewPeriod", routers.view_period),
        ("windows.span", windows.span, "above", "scrape.period", scrape.period),
        ("windows.max", windows.max, "at least", "windows.span", windows.span),
        ("windows.expireAfter", windows.expire_after, "above", "scrape.period", scrape.fresh_seconds),
        ("limits.family", limits.family, "at most", "limits.body", limits.body),
        ("limits.line", limits.line, "at most", "limits.family", limits.family),
    )
    for path, value, word, other, bound in rows:
        holds = {"below": value < bound, "above": value > bound, "at least": value >= bound, "at most": value <= bound}
        if holds[word]:
            continue
        show: Callable[[Any], str] = show_size if path.startswith("limits.") else show_duration
        twice = "two periods and a timeout" if path == "windows.expireAfter" else f"`{other}`"
        place = path if tracker.knows(path) else other
        tracker.fault_at(place, f"{path} of {show(value)}", f"{path} {word} {twice}, {show(bound)}")


def _fleets(documents: list[Document], settings: Settings, faults: list[Fault]) -> tuple[list[Deployment], list[Fault]]:
    """The deployments of every `Fleet` document, and notices."""
    made: list[tuple[Deployment, DeploymentDocument, Tracker]] = []
    notices: list[Fault] = []
    trackers: list[Tracker] = []
    for document in documents:
        tracker = Tracker(document.file)
        trackers.append(tracker)
        fleet = tracker.decode(document.root, FleetDocument)
        if fleet is None:
            continue
        found, noticed = deployments(fleet, tracker)
        notices += noticed
        made += [(each, written, tracker) for each, written in zip(found, fleet.deployments, strict=True)]
    record_duplicates(made)
    _check_count(made, settings.limits.targets)
    for tracker in trackers:
        faults += tracker.faults
    return [each for each, _, _ in made], notices


def _check_count(made: list[tuple[Deployment, DeploymentDocument, Tracker]], limit: int) -> None:
    """More targets than may be read is a fault, at the deployment that passes the limit."""
    count = 0
    for deployment, document, tracker in made:
        before, count = count, count + sum(1 for _ in deployment.targets())
        if before <= limit < count:
            tracker.fault(document, "roles", f"target number {limit + 1}", f"at most `limits.targets`, {limit}")
