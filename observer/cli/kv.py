"""The verb ``kv``: KV-event streams and blocks of a deployment, and the decoding of a recording of events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from exporters.grid import cells_of, columns_of, grid
from exporters.printable import printable
from observer.cli.exits import EPILOG, CommandFailed
from observer.cli.groups import NameOrCommand
from observer.cli.output import grouped, show
from observer.cli.show import Asked, asking
from observer.measure.kv_recording import BadRecordingError, decode_rows


@click.group(cls=NameOrCommand, epilog=EPILOG)
def kv() -> None:
    """KV-event streams: who holds which blocks, what was missed, and how old that is.

    `observer kv NAME` shows a deployment's streams; `observer kv lookup NAME --hash HASH` says who holds blocks;
    `observer kv decode FILE` reads a recording, without an observer.
    """


@kv.command(name="show", short_help="Show a deployment's streams and blocks.", epilog=EPILOG)
@click.argument("name")
@asking(all_namespaces=False)
def kv_show(asked: Asked, name: str) -> None:
    """Show a deployment's streams with their state, history, blocks and losses, and how blocks are shared."""

    def ask() -> Any:
        return asked.get(f"/api/v1/namespaces/{asked.namespace}/modeldeployments/{name}/kv")

    def draw(answer: Any, wide: bool, width: int | None) -> RenderableType:
        streams = streams_table(answer["streams"], wide=wide, width=width)
        table = residency_table(answer["residency"], width=width)
        return grouped([streams, table, *stale_lines(answer["residency"])])

    show(ask, asked.form, draw, asked.watch)


@kv.command(name="lookup", epilog=EPILOG, short_help="Say who holds a prefix of some block hashes.")
@click.argument("name")
@click.option("--hash", "hashes", multiple=True, required=True, metavar="HASH", help="A block's hash as its engine gives it, from the first block on; may be repeated.")  # fmt: skip
@click.option("--model", metavar="NAME", help="Only what holds for this model.")
@asking(all_namespaces=False)
def kv_lookup(asked: Asked, name: str, hashes: tuple[str, ...], model: str | None) -> None:
    """Say which Pods hold how long a prefix of these block hashes, and of which Pods that is not known."""
    query = {"hashes": ",".join(hashes), **({"model": model} if model is not None else {})}

    def ask() -> Any:
        return asked.get(f"/api/v1/namespaces/{asked.namespace}/modeldeployments/{name}/kv/lookup", query)

    def draw(answer: Any, _: bool, width: int | None) -> RenderableType:
        return holdings_picture(answer, width=width)

    show(ask, asked.form, draw, asked.watch)


@kv.command(name="decode", short_help="Read a recording of KV-event messages.", epilog=EPILOG)
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
                click.echo(orjson.dumps(found, default=str).decode() if output == "json" else printable(_line(found)))
    except BadRecordingError as error:
        raise CommandFailed(f"{file}: {error}") from error


def _line(found: dict[str, Any]) -> str:
    events = ", ".join(f"{event['type']}({len(event.get('block_hashes', ()))})" for event in found.get("events", ()))
    what = found.get("rejected") or found.get("undecodable") or ("end" if found.get("end") else events or "no events")
    outcome = "; ".join(found.get("outcome", ()))
    return f"{found['line']:>5} {found['kind']:<15} {found.get('sequence', '-'):>8}  {what}  {outcome}".rstrip()


STREAMS = columns_of(
    "POD^, RANK> 3, STATE, HISTORY, BLOCKS, EVENTS> 2, GAPS> 1, MISSED> 1, LAST EVENT 4, APPROXIMATE 6"
)
STREAMS_WIDE = (*STREAMS, *columns_of("REPAIRED> 7, RESETS> 7, UNANCHORED> 7, ENDPOINT 8, DETAIL~ 5"))
RESIDENCY = columns_of(
    "ENGINE 5, HASHES 7, BLOCK SIZE> 6, MEDIUM, GROUP> 4, UNIQUE>, TOTAL>, SHARED>, REDUNDANCY> 1, STALE> 2"
)
MOST_STALE = 10
"""Streams apart that are named below the table."""
HOLDINGS = columns_of("POD^, RANK> 3, BLOCKS>, TOKENS> 1, MEDIA 2, AGE> 4, STATE, HISTORY, APPROXIMATE 6")


def streams_table(streams: list[dict[str, Any]], *, wide: bool, width: int | None = None) -> Table | Text:
    """The streams of one deployment as a table."""
    rows = []
    for stream in streams:
        counters = stream["counters"]
        held = [f"{medium['medium']}:{medium['blocks']}" for medium in stream["media"] if "blocks" in medium]
        # Of a life of which nothing was received nobody knows what it holds.
        blocks = " ".join(held) or ("0" if "blocks" in stream else "-")
        blocks += " stale" if "stale" in stream else ""
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
                str(stream.get("unanchored", "-")),
                stream["endpoint"],
                stream.get("detail") or "",
            ]
        rows.append(cells_of(cells))
    if not rows:
        return Text("no KV-event publisher is subscribed to")
    return grid(STREAMS_WIDE if wide else STREAMS, rows, width)


def residency_table(residency: list[dict[str, Any]], *, width: int | None = None) -> Table:
    """How blocks are shared between members, by hash space, medium and group.

    ``STALE`` has what streams without a connection last said; the other counts have none of it.
    """
    rows = []
    for item in residency:
        space = item["space"]
        counts = (str(item.get(name, "-")) for name in ("unique", "total", "shared"))
        redundancy = f"{item['redundancy']:.2f}" if "redundancy" in item else "unknown"
        stale = str(sum(each["blocks"] for each in item.get("stale", ())))
        names = [f"{space['engine']} {space['version']}".strip(), space["hashType"], str(space["blockSize"])]
        rows.append(cells_of([*names, item["medium"], str(item["group"]), *counts, redundancy, stale]))
    return grid(RESIDENCY, rows, width)


def stale_lines(residency: list[dict[str, Any]]) -> list[Text]:
    """Whose blocks the counts leave out, and for how long that stream has had no connection."""
    found: dict[tuple[str, int], tuple[float, int]] = {}
    for each in (each for item in residency for each in item.get("stale", ())):
        stream = (each["pod"], each["rank"])
        age, blocks = each["since"]["ageSeconds"], found.get(stream, (0.0, 0))[1]
        found[stream] = (age, blocks + each["blocks"])
    lines = [
        Text(f"Not counted: {blocks} blocks of {pod} rank {rank}, whose stream lost its connection {age:.0f} s ago.")
        for (pod, rank), (age, blocks) in sorted(found.items())[:MOST_STALE]
    ]
    more = len(found) - len(lines)
    return [*lines, Text(f"Nor are those of {more} more streams without a connection.")] if more > 0 else lines


def holdings_picture(answer: dict[str, Any], *, width: int | None = None) -> RenderableType:
    """Who holds how much of what was asked for; who is not known to hold any is counted, never left out."""
    rows = []
    for item in answer["holdings"]:
        age = "-" if item.get("ageSeconds") is None else f"{item['ageSeconds']:.0f} s"
        media = " ".join(f"{medium}:{blocks}" for medium, blocks in item["media"].items())
        counts = [str(item["rank"]), f"{item['blocks']}/{answer['asked']}", str(item["tokens"])]
        approximate = ",".join(item["approximate"]) or "-"
        rows.append(cells_of([item["pod"], *counts, media, age, item["state"], item["history"], approximate]))
    parts: list[RenderableType] = [grid(HOLDINGS, rows, width)] if rows else [Text("No Pod is known to hold any.")]
    if answer["unknown"]:
        parts.append(Text(f"It is not known what is held by the streams of {_pods(answer['unknown'])}."))
    return grouped(parts)


def _pods(streams: list[dict[str, Any]]) -> str:
    return "1 more Pod or rank" if len(streams) == 1 else f"{len(streams)} more Pods or ranks"
