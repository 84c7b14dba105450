"""How answers are printed: as a table, JSON or YAML, once or again and again."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from typing import Any

import click
import orjson
from rich.console import Console, Group, RenderableType
from rich.text import Text
from ruamel.yaml import YAML

from exporters.live import Screen, console, width
from exporters.printable import printable
from observer.cli.exits import CommandFailed, Exit


class Format(StrEnum):
    """What ``-o`` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


Draw = Callable[[Any, bool, int | None], RenderableType]
"""From an answer to its table; the flag asks for every column, the number is the width that there is."""


def dumped(answer: Any, form: Format) -> str:
    """An answer as JSON (two spaces) or YAML, without a last newline."""
    if form is Format.JSON:
        return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # the library types it by its default
    text = io.StringIO()
    yaml.dump(answer, text)
    return text.getvalue().rstrip("\n")


def show(ask: Callable[[], Any], form: Format, draw: Draw, watch: float | None) -> None:
    """Ask and print; with ``watch`` (seconds) again and again until interrupted.

    While watching, an observer that does not answer is shown and asked again.
    """
    if watch is None:
        with understood():
            _print_once(ask(), form, draw)
        return
    target = console()
    with Screen(target) as screen:
        while True:
            screen.show(_picture(ask, form, draw, target))
            threading.Event().wait(watch)


def _print_once(answer: Any, form: Format, draw: Draw) -> None:
    if form in {Format.JSON, Format.YAML}:
        click.echo(dumped(answer, form))
    else:
        target = console()
        target.print(draw(answer, form is Format.WIDE, width(target)))


def _picture(ask: Callable[[], Any], form: Format, draw: Draw, target: Console) -> RenderableType:
    try:
        with understood():
            answer = ask()
            if form in {Format.JSON, Format.YAML}:
                return Text(dumped(answer, form))
            return draw(answer, form is Format.WIDE, width(target))
    except CommandFailed as failed:
        if failed.code is Exit.USAGE:
            raise
        return Text(failed.message, "red" if target.is_terminal else "")


@contextmanager
def understood() -> Iterator[None]:
    """Turns an answer of another shape than expected into a sentence: some other program's JSON, another version's."""
    try:
        yield
    except (KeyError, TypeError) as error:
        lacks = f"has no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else "has another shape"
        raise CommandFailed(
            f"the answer {lacks}: what answers is no observer, or one of another version than this command, "
            f"{version('modeldeployment-observer')}. Check --server, or update the older of the two"
        ) from error


def grouped(parts: list[RenderableType]) -> Group:
    """Parts under each other with an empty line between."""
    spaced: list[RenderableType] = []
    for part in parts:
        spaced += [part, Text("")] if part is not parts[-1] else [part]
    return Group(*spaced)


def tell(sentence: str) -> None:
    """A sentence for the person at the terminal, on standard error so that pipes stay clean."""
    click.echo(printable(sentence), err=True)
