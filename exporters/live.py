"""A table of deployments that stays on the screen, or lines that appear when something changed where there is none.

The same text serves `demo`, `serve` and ``get --watch``. Nothing here waits or reads a clock: the caller updates it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from exporters import tables
from exporters.encoding import UNRENDERABLE
from exporters.printable import printable
from exporters.summaries import DeploymentSummary, deployment_summary, unrendered_summary
from router_contract.verdicts import DeploymentReport

PLAIN_WIDTH = 10_000
"""Columns of output that is not a terminal: so many that every line stays whole."""


def width(target: Console) -> int | None:
    """How wide a table may be: the terminal's width, or ``None`` where there is none."""
    return target.width if target.is_terminal else None


def console(*, stderr: bool = False) -> Console:
    """A console for this process: colours on a terminal unless ``NO_COLOR``, and whole lines elsewhere."""
    made = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made = _Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)
    return made


class _Console(Console):
    """A console on which only its own control sequences have an effect: names and messages are other people's."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def summaries(reports: Sequence[DeploymentReport]) -> list[dict[str, Any]]:
    """Reports as the API's JSON for `tables.deployments`."""
    return [msgspec.to_builtins(_summary(report)) for report in reports]


def _summary(report: DeploymentReport) -> DeploymentSummary:
    try:
        return deployment_summary(report)
    except UNRENDERABLE as error:
        return unrendered_summary(report.key, error)


class Screen:
    """Shows one picture at a time. On a terminal it is drawn in place; elsewhere it is printed when its text changes."""

    def __init__(self, target: Console) -> None:
        self._console = target
        self._live = Live(console=target, auto_refresh=False, vertical_overflow="crop") if target.is_terminal else None
        self._last = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, picture: RenderableType, *, key: str = "") -> None:
        """Draw. ``key`` is what counts as a change where nothing can be drawn in place (default: the text itself)."""
        if self._live is not None:
            self._live.update(Group(picture, Text(""), Text("Ctrl-C ends this.", "dim")), refresh=True)
            return
        text = key or _plain(picture)
        if text != self._last:
            self._last = text
            self._console.print(picture)


def _plain(picture: RenderableType) -> str:
    text = io.StringIO()
    Console(width=PLAIN_WIDTH, color_system=None, file=text).print(picture)
    return text.getvalue()


def deployments_picture(
    items: Sequence[dict[str, Any]], target: Console, note: str = "", *, wide: bool = False
) -> RenderableType:
    """The table of deployments under a note (addresses, or what went wrong)."""
    parts: list[RenderableType] = [Text(note), Text("")] if note else []
    table = tables.deployments(items, wide=wide, width=width(target))
    return Group(*parts, table if items else Text("No deployment is observed."))


def changes_key(items: Sequence[dict[str, Any]]) -> str:
    """What of the deployments counts as a change for lines that are not drawn in place: states, not numbers."""
    rows = []
    for item in items:
        counts = [tuple(role[name] for name in ("name", "observed", "ready", "desired")) for role in item["roles"]]
        said = (item["phase"], item["answer"], item["roleSummary"], item["state"], item["message"])
        rows.append((item["namespace"], item["name"], *said, item["targets"], counts))
    return repr(rows)
