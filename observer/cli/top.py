"""The verb ``top``: deployments and their replicas with load, rates and freshness, live, sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from exporters.live import console, width
from exporters.top_tables import SORTS, arranged, picture
from observer.cli.exits import EPILOG, CommandFailed, Exit
from observer.cli.keys import BACK, ENTER, ESCAPE, INTERRUPT, Keys
from observer.cli.output import Format, show, understood
from observer.cli.show import Asked, asking
from observer.clock import SystemClock

HELP = "s sort  r reverse  / filter  e replicas  q quit"
_PERIOD = 2.0
_CHROME = 4
"""Lines of the screen beside the table's own."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What the person asked to see. ``typing`` is while a filter is being typed; ``done`` ends the command."""

    sort: str = "name"
    reverse: bool = False
    text: str = ""
    replicas: bool = True
    typing: bool = False
    done: bool = False


def pressed(view: View, keys: str) -> View:
    """The view after some keys. Keys without a meaning change nothing."""
    if keys.startswith(ESCAPE) and len(keys) > 1:
        return view  # an arrow or another key with a sequence of its own
    for key in keys:
        view = _typed(view, key) if view.typing else _commanded(view, key)
    return view


def _typed(view: View, key: str) -> View:
    change = msgspec.structs.replace
    if key in {ENTER, ESCAPE, INTERRUPT}:
        return change(view, typing=False, text=view.text if key == ENTER else "")
    if key in {BACK, "\b"}:
        return change(view, text=view.text[:-1])
    return change(view, text=view.text + key) if key.isprintable() and len(view.text) < 60 else view


def _commanded(view: View, key: str) -> View:
    change = msgspec.structs.replace
    if key in {"q", "Q", INTERRUPT}:
        return change(view, done=True)
    if key == "s":
        return change(view, sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)])
    if key == "r":
        return change(view, reverse=not view.reverse)
    if key == "e":
        return change(view, replicas=not view.replicas)
    if key == "/":
        return change(view, typing=True, text="")
    return change(view, text="") if key == ESCAPE else view


@click.command(epilog=EPILOG)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="By what lines are sorted; numbers from the largest, unknown ones last.")  # fmt: skip
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--filter", "text", default="", metavar="TEXT", help="Only what has this in a name, role, software or state.")  # fmt: skip
@click.option("--no-replicas", is_flag=True, help="Only deployments.")
@click.option("--once", is_flag=True, help="Print once and exit; so it is where there is no terminal, but for --watch.")
@asking(all_namespaces=True)
def top(asked: Asked, sort: str, reverse: bool, text: str, no_replicas: bool, once: bool) -> None:
    """Show deployments and replicas live: requests, KV usage, rates, first token, cache hits, and their age.

    Keys on a terminal: s sorts by the next column, r reverses, / filters, e hides replicas, q quits. A dash is not
    known and never zero; ~ marks a number of which a part is stale.
    """
    view = View(sort=sort, reverse=reverse, text=text, replicas=not no_replicas)

    def ask() -> Any:
        query = {} if asked.namespace is None else {"namespace": asked.namespace}
        return asked.get("/api/v1/top", query)

    target = console()
    if once or asked.form in {Format.JSON, Format.YAML} or not target.is_terminal:
        show(ask, asked.form, lambda answer, _, width: body(answer, view, width), None if once else asked.watch)
        return
    with Keys() as keys:
        _live(ask, view, target, keys.wait, asked.watch or _PERIOD)


def _live(ask: Callable[[], Any], view: View, target: Console, wait: Callable[[float], str], period: float) -> None:
    clock = SystemClock()
    answer: Any = {"items": [], "leftOut": 0}
    with Live(console=target, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        while True:
            trouble = ""
            try:
                with understood():
                    answer = ask()
                    body(answer, view, None)
            except CommandFailed as failed:
                if failed.code is Exit.USAGE:
                    raise
                trouble = failed.message
            live.update(screen(answer, view, target, trouble), refresh=True)
            # Keys are answered at once from the last answer; the next question comes when its time has.
            due = clock.now().mono + period
            while (left := due - clock.now().mono) > 0:
                view = pressed(view, wait(left))
                if view.done:
                    return
                live.update(screen(answer, view, target, trouble), refresh=True)


def screen(answer: Any, view: View, target: Console, trouble: str) -> RenderableType:
    """The whole screen: how it is sorted and filtered, the table as far as it fits, trouble, the keys."""
    direction = " reversed" if view.reverse else ""
    filtered = f"   filter: {view.text}{'_' if view.typing else ''}" if view.text or view.typing else ""
    head = Text(f"sorted by {view.sort}{direction}{filtered}", "dim")
    parts: list[RenderableType] = [head]
    if trouble:
        # Old numbers under new trouble must not look fresh.
        parts.append(Text(f"these are the last numbers there were: {trouble}", "red"))
    parts.append(body(answer, view, width(target), lines=max(1, target.height - _CHROME - bool(trouble))))
    return Group(*parts, Text(HELP, "dim"))


def body(answer: Any, view: View, width: int | None, lines: int | None = None) -> RenderableType:
    """The table, or a sentence that there is nothing to show."""
    items = arranged(answer["items"], view.sort, reverse=view.reverse, text=view.text)
    if not items:
        said = f"Nothing has {view.text!r} in it." if view.text and answer["items"] else "No deployment is observed."
        return Text(said)
    left = answer["leftOut"]
    parts: list[RenderableType] = [picture(_fitting(items, view, lines), width, replicas=view.replicas)]
    if left:
        parts.append(Text(f"{left} more replicas are left out of one answer: ask with -n", "yellow"))
    return Group(*parts)


def _fitting(items: list[Any], view: View, lines: int | None) -> list[Any]:
    """As many lines as the screen has; a table that is cut says nothing false, it only ends."""
    if lines is None:
        return items
    kept: list[Any] = []
    room = lines
    for item in items:
        if room <= 0:
            break
        replicas = item["replicas"][: room - 1] if view.replicas else []
        room -= 1 + len(replicas)
        kept.append({**item, "replicas": replicas})
    return kept
