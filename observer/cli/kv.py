"""The verb ``kv``: KV-event streams and blocks of a deployment, and the decoding of a recording of events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import RenderableType
from rich.table import Table

from observer.cli.exits import EPILOG, CommandFailed
from observer.cli.groups import NameOrCommand
from observer.cli.output import grouped, show
from observer.cli.show import Asked, asking
from observer.measure.kv_recording import BadRecordingError, decode_rows


@click.group(cls=NameOrCommand, epilog=EPILOG)
def kv() -> None:
    """KV-event streams: who holds which blocks, what was missed, and how old that is.

    `observer kv NAME` shows a deployment's streams; `observer kv decode FILE` reads a recording, without an observer.
    """


@kv.command(name="show", epilog=EPILOG)
@click.argument("name")
@asking(all_namespaces=False)
def kv_show(asked: Asked, name: str) -> None:
    """Show a deployment's streams with their state, history, blocks and losses, and how blocks are shared."""

    def ask() -> Any:
        return asked.get(f"/api/v1/namespaces/{asked.namespace}/modeldeployments/{name}/kv")

    def draw(answer: Any, wide: bool, _: int | None) -> RenderableType:
        return grouped([streams_table(answer["streams"], wide=wide), residency_table(answer["residency"])])

    show(ask, asked.form, draw, asked.watch)


@kv.command(name="decode", epilog=EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["json", "table"]), default="json", show_default=True, help="How to print: one JSON object a row, or a line for each.")  # fmt: skip
@click.option("--tokens", is_flag=True, help="Print token ids instead of their number.")
def kv_decode(file: Path, output: str, tokens: bool) -> None:
    """Read a recording of KV-event messages: each batch with its events in one shape, damage named.

    Each live message is also judged after those before it: applied, duplicate, gap, new life, event skipped, batch
    lost, ignored.
    """
    try:
        with file.open("rb") as lines:
            for found in decode_rows(lines, tokens=tokens):
                click.echo(orjson.dumps(found, default=str).decode() if output == "json" else _line(found))
    except BadRecordingError as error:
        raise CommandFailed(f"{file}: {error}") from error


def _line(found: dict[str, Any]) -> str:
    events = ", ".join(f"{event['type']}({len(event.get('block_hashes', ()))})" for event in found.get("events", ()))
    what = found.get("rejected") or found.get("undecodable") or ("end" if found.get("end") else events or "no events")
    outcome = "; ".join(found.get("outcome", ()))
    return f"{found['line']:>5} {found['kind']:<15} {found.get('sequence', '-'):>8}  {what}  {outcome}".rstrip()


def streams_table(streams: list[dict[str, Any]], *, wide: bool) -> Table:
    """The streams of one deployment as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ["POD", "RANK", "STATE", "HISTORY", "BLOCKS", "EVENTS", "GAPS", "MISSED", "LAST EVENT", "APPROXIMATE"]
    for column in columns + (["REPAIRED", "RESETS", "UNANCHORED", "ENDPOINT", "DETAIL"] if wide else []):
        table.add_column(column, justify="right" if column in {"BLOCKS", "EVENTS", "GAPS", "MISSED"} else "left")
    for stream in streams:
        counters = stream["counters"]
        blocks = " ".join(f"{medium['medium']}:{medium['blocks']}" for medium in stream["media"]) or "0"
        last = stream.get("lastEvent")
        cells = [
            stream["pod"],
            str(stream["rank"]),
            stream["state"],
            stream["history"],
            blocks,
            str(sum(counters["events"].values())),
            str(counters["gaps"]),
            str(counters["missed"]),
            f"{last['ageSeconds']:.0f} s ago" if last else "none",
            ",".join(stream["approximate"]) or "-",
        ]
        if wide:
            cells += [
                str(counters["repaired"]),
                str(counters["resets"]),
                str(stream["unanchored"]),
                stream["endpoint"],
                stream.get("detail", ""),
            ]
        table.add_row(*cells)
    if not streams:
        table.add_row("no KV-event publisher is subscribed to")
    return table


def residency_table(residency: list[dict[str, Any]]) -> Table:
    """How blocks are shared between members, by hash space, medium and group."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("ENGINE", "HASHES", "BLOCK SIZE", "MEDIUM", "GROUP", "UNIQUE", "TOTAL", "SHARED", "REDUNDANCY"):
        table.add_column(column)
    for item in residency:
        space = item["space"]
        table.add_row(
            f"{space['engine']} {space['version']}".strip(),
            space["hashType"],
            str(space["blockSize"]),
            item["medium"],
            str(item["group"]),
            str(item["unique"]),
            str(item["total"]),
            str(item["shared"]),
            f"{item['redundancy']:.2f}" if "redundancy" in item else "unknown",
        )
    return table
