"""One look for every panel: units, colours, legends, texts where nothing is known. Builders of the Grafana SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, StackingConfig, VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import DashboardLink, ThresholdsConfig
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DashboardSpecialValueMapOptions,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Panel,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.queries import Query

NOT_KNOWN: Final = "not known"
NO_TRAFFIC: Final = "no traffic, or not known"
NEVER: Final = "never seen"
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, RED, ORANGE, GREY, BLUE = "green", "red", "orange", "#8e8e8e", "blue"

Text = tuple[str, str]
"""A text and its colour."""
YES_NO: Final[Mapping[str, Text]] = {"1": ("yes", GREEN), "0": ("no", RED)}
STATUS: Final[Mapping[str, Text]] = {"1": ("True", GREEN), "0": ("False", RED), "-1": ("Unknown", GREY)}
HOLDS: Final[Mapping[str, Text]] = {"1": ("holds", BLUE)}


def mappings(texts: Mapping[str, Text], nothing: str) -> list[ValueMapping]:
    """Texts for numbers, and one for no number."""
    known = {
        number: ValueMappingResult(text=text, color=colour, index=place)
        for place, (number, (text, colour)) in enumerate(texts.items())
    }
    unknown = SpecialValueMap(
        options=DashboardSpecialValueMapOptions(
            match=SpecialValueMatch.NULL_AND_NAN,
            result=ValueMappingResult(text=nothing, color=GREY, index=len(texts)),
        )
    )
    return [ValueMap(options=known), unknown] if known else [unknown]


def steps(*limits: tuple[float, str], first: str = GREEN) -> ThresholdsConfig:
    """Colours from a number on."""
    found = [Threshold(value=None, color=first), *(Threshold(value=value, color=colour) for value, colour in limits)]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def targets(
    queries: Sequence[Query], *, instant: bool = False, columns: bool = False
) -> Iterator[prometheus.Dataquery]:
    """The queries of a panel with their letters."""
    for place, query in enumerate(queries):
        made = prometheus.Dataquery().ref_id(chr(ord("A") + place)).expr(query.expr).datasource(SOURCE)
        made = made.instant() if instant else made.range()
        if columns:
            made = made.format(PromQueryFormat.TABLE)
        if query.legend:
            made = made.legend_format(query.legend)
        yield made


def tile(
    title: str,
    text: str,
    *queries: Query,
    unit: str = "short",
    nothing: str = NOT_KNOWN,
    colours: ThresholdsConfig | None = None,
    width: int = 3,
) -> Builder[Panel]:
    """One number, now."""
    panel = (
        stat.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .unit(unit)
        .no_value(nothing)
        .mappings(mappings({}, nothing))
        .thresholds(colours or steps(first="text"))
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(common.BigValueGraphMode.NONE)
        .height(4)
        .span(width)
    )
    for target in targets(queries, instant=True):
        panel = panel.with_target(target)
    return panel


def lines(
    title: str,
    text: str,
    *queries: Query,
    unit: str = "short",
    nothing: str = NOT_KNOWN,
    stacked: bool = False,
    least: float | None = 0.0,
    most: float | None = None,
    width: int = 12,
) -> Builder[Panel]:
    """Numbers over time. A gap stays a gap: what is not known is not drawn through."""
    legend = VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .unit(unit)
        .no_value(nothing)
        .legend(legend.display_mode(common.LegendDisplayMode.TABLE).calcs(["lastNotNull", "max"]))
        .span_nulls(False)
        .fill_opacity(20 if stacked else 0)
        .height(8)
        .span(width)
    )
    if stacked:
        panel = panel.stacking(StackingConfig().mode(common.StackingMode.NORMAL))
    if least is not None:
        panel = panel.min(least)
    if most is not None:
        panel = panel.max(most)
    for target in targets(queries):
        panel = panel.with_target(target)
    return panel


def states(
    title: str,
    text: str,
    *queries: Query,
    texts: Mapping[str, Text] = HOLDS,
    nothing: str = NOT_KNOWN,
    width: int = 12,
    height: int = 8,
) -> Builder[Panel]:
    """States over time, one row for each thing. Where a row is grey or empty nobody could tell."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .no_value(nothing)
        .mappings(mappings(texts, nothing))
        .show_value(common.VisibilityMode.NEVER if texts is HOLDS else common.VisibilityMode.AUTO)
        .merge_values(True)
        .row_height(0.8)
        .height(height)
        .span(width)
    )
    for target in targets(queries):
        panel = panel.with_target(target)
    return panel


def spread(title: str, text: str, query: Query, *, unit: str = "s", width: int = 12) -> Builder[Panel]:
    """A histogram over time; the query gives the increase of each bucket by ``le``."""
    target = prometheus.Dataquery().ref_id("A").expr(query.expr).datasource(SOURCE).range()
    return (
        heatmap.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .no_value(NO_TRAFFIC)
        .with_target(target.format(PromQueryFormat.HEATMAP).legend_format("{{le}}"))
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .height(8)
        .span(width)
    )


def rows(
    title: str,
    text: str,
    *queries: Query,
    texts: Mapping[str, Mapping[str, Text]] | None = None,
    link: tuple[str, str] | None = None,
    nothing: str = NOT_KNOWN,
    height: int = 10,
) -> Builder[Panel]:
    """A table: queries with the same labels become the columns of one row. ``link`` is a title and an address.

    A query without a column name gives only its labels.
    """
    panel = table.Panel().title(title).description(text).datasource(SOURCE).no_value(nothing).height(height).span(24)
    for target in targets(queries, instant=True, columns=True):
        panel = panel.with_target(target)
    names = {f"Value #{chr(ord('A') + place)}": query.column for place, query in enumerate(queries)}
    hidden = {"Time": True, **{name: True for name, column in names.items() if not column}}
    renamed = {name: column for name, column in names.items() if column}
    # Both names of our renamed labels, so that the table looks the same with and without honorLabels.
    renamed |= {"exported_namespace": "namespace", "exported_pod": "pod"}
    organised = {"excludeByName": hidden, "renameByName": renamed}
    panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={})).with_transformation(
        DataTransformerConfig(id_val="organize", options=organised)
    )
    for query in (query for query in queries if query.column):
        properties = [DynamicConfigValue(id_val="unit", value=query.unit)] if query.unit else []
        shown = (texts or {}).get(query.column, {})
        properties.append(DynamicConfigValue(id_val="mappings", value=mappings(shown, nothing)))
        properties.append(DynamicConfigValue(id_val="noValue", value=nothing))
        panel = panel.override_by_name(query.column, properties)
    if link is not None:
        title, url = link
        made = DashboardLink(title).type(DashboardLinkType.LINK).url(url)
        panel = panel.data_links([made])
    return panel.show_header(True)
