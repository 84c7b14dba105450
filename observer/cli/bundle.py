"""The verb ``bundle``: a redacted recording of a running observer, for whoever helps."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import click

from observer.cli.exits import EPILOG, CommandFailed
from observer.cli.output import tell
from observer.cli.show import Asked, asking


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=20),
    metavar="SECONDS",
    help="How long to listen; two periods unless told.",
)
@asking(all_namespaces=False)
def bundle(asked: Asked, file: Path, seconds: float | None) -> None:
    """Write what a running observer knows and reads in the next seconds to FILE, redacted, for `observer replay`.

    It holds states, the last bodies that were not understood, the log's last lines, limits and versions. Values of
    headers, tokens, keys and credentials are hidden; look through it all the same before you hand it on.
    """
    if file.exists():
        raise CommandFailed(f"{file} exists already; name a new file")
    query: dict[str, Any] = {} if seconds is None else {"seconds": f"{seconds:g}"}
    data = base64.b64decode(asked.get("/api/v1/bundle", query)["base64"])
    try:
        with file.open("xb") as out:
            out.write(data)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from error
    tell(f"wrote {file}, {len(data)} bytes; `observer replay {file}` opens it")
