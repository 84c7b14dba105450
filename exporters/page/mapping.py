"""The mapping page: paste what a program exposes, choose a table, and see what it means and what the table misses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from aiohttp import web

from exporters.page.protocols import Mapped, Services
from exporters.page.query import checked
from exporters.page.render import Built, Renderer, Twin
from exporters.page.targets import value_rows, value_twin
from router_contract import catalog
from router_contract.targets import Component

MOST_BYTES = 2 << 20
"""Bytes of one request; a pasted text is sent with its special characters written as three."""


class BadPasteError(ValueError):
    """A paste that cannot be tried; the text says why. ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Paste(msgspec.Struct, frozen=True, kw_only=True):
    """What was pasted, and by which table and version it is to be read."""

    table: str
    version: str | None
    body: bytes


def tables() -> list[str]:
    """Every table as ``component/name``."""
    return [f"{component.value}/{name}" for component, found in catalog.TABLES.items() for name in found]


async def read_paste(request: web.Request) -> Paste:
    """The paste of a form, or of a plain body with ``?table=&version=``. Raises `BadPasteError`."""
    body = bytearray()
    async for chunk in request.content.iter_chunked(64 << 10):
        body += chunk
        if len(body) > MOST_BYTES:
            raise BadPasteError(f"the request is longer than {MOST_BYTES >> 20} MiB", 413)
    told: Mapping[str, str] = request.query
    text = bytes(body)
    if request.content_type == "application/x-www-form-urlencoded":
        try:
            fields = parse_qs(text.decode(), keep_blank_values=True, max_num_fields=10, errors="strict")
        except ValueError as error:
            raise BadPasteError(f"the form cannot be read: {error}") from None
        told = {name: values[-1] for name, values in fields.items()}
        text = told.get("body", "").replace("\r\n", "\n").encode()
    elif request.content_type not in {"text/plain", "application/octet-stream", "application/openmetrics-text"}:
        raise BadPasteError(f"content type {request.content_type!r}; want a form or text/plain", 415)
    table, version = told.get("table", ""), told.get("version", "").strip()[:100] or None
    if table not in tables():
        raise BadPasteError(f"table is {table[:100]!r}; want one of {', '.join(tables())}")
    if not text.strip():
        raise BadPasteError("nothing was pasted; want the text of a metrics page")
    return Paste(table=table, version=version, body=text)


class MappingPage:
    """The form, and what a paste means."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def build(self, _: Mapping[str, str], query: Mapping[str, str]) -> Built:
        """The empty form."""
        told = checked(query, ("table", "version"))
        return self._built(told.get("table", ""), told.get("version", ""))

    def twin(self, _: Mapping[str, str], query: Mapping[str, str]) -> Twin:
        """The tables that may be chosen."""
        checked(query, ("table", "version"))
        return Twin(value={"tables": tables(), "post": "text/plain to /mapping?table=…&version=…&format=json"})

    def tried(self, paste: Paste) -> Mapped:
        """What the table reads in the paste."""
        component, _, name = paste.table.partition("/")
        return self._services.mapper(Component(component), name, paste.version, paste.body)

    def result(self, paste: Paste, found: Mapped) -> Built:
        """The form with what was pasted, and the result under it."""
        known = [each for each in found.values if each.missing is None]
        missed = [each for each in found.values if each.missing is not None]
        return self._built(
            paste.table,
            paste.version or "",
            body=paste.body.decode(errors="replace"),
            result={
                "found": found,
                "known": value_rows(known),
                "missed": value_rows(missed),
                "unknown_families": found.unknown_families,
                "problems": found.problems,
            },
        )

    def refused(self, why: str, status: int) -> Built:
        """The form, with why the paste was not tried."""
        return self._built("", "", error=why, status=status)

    def _built(
        self, table: str, version: str, *, body: str = "", result: Any = None, error: str = "", status: int = 200
    ) -> Built:
        context = {
            "tables": tables(),
            "table": table,
            "told_version": version,
            "body": body,
            "result": result,
            "error": error,
            "most": MOST_BYTES >> 20,
        }
        return Built(template="mapping.html", title="Mapping", context=context, status=status, live=False)


def mapped_twin(paste: Paste, found: Mapped) -> dict[str, Any]:
    """The result for JSON."""
    return {
        "table": paste.table,
        "version": found.version,
        "unreadable": found.unreadable or None,
        "samplesKept": found.samples_kept,
        "samplesDropped": found.samples_dropped,
        "values": [value_twin(each) for each in found.values],
        "unknownFamilies": list(found.unknown_families),
        "problems": msgspec.to_builtins(found.problems),
    }
