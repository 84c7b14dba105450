"""Templates to HTML: one environment that escapes everything, fragments with stable ids, whole pages.

A page is a frame and groups of fragments. The frame is sent once; a fragment is sent again whenever it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from exporters.page import shown
from exporters.timestamps import rfc3339

FOLDER = Path(__file__).parent

NAV = (
    ("/", "Deployments"),
    ("/targets", "Targets"),
    ("/routers", "Routers"),
    ("/kv", "KV events"),
    ("/canary", "Canary"),
    ("/mapping", "Mapping"),
    ("/api/v1/limits", "Limits"),
)
"""The pages that stand in the navigation, in order. A new page is one more line."""


class Fragment(msgspec.Struct, frozen=True):
    """A part of a page that changes as a whole: its element's id and its HTML, one element with that id."""

    id: str
    html: str


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """A page at one moment: the frame's template with what it needs, and the fragments of each group, in order.

    ``status`` is the HTTP status. ``live`` says whether the page is kept up to date.
    """

    template: str
    title: str
    context: Mapping[str, Any] = {}
    groups: Mapping[str, Sequence[Fragment]] = {}
    status: int = 200
    live: bool = True


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A page's JSON: the value and its HTTP status."""

    value: Any
    status: int = 200


def element_id(*parts: str) -> str:
    """An id for an element, from names of any kind: no two lists of names give the same."""
    return "-".join(quote(part, safe="").replace("-", "%2D").replace("%", "_") for part in parts)


def path_of(*parts: object) -> str:
    """A URL's path of segments, each escaped as a whole."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(
        value=shown.value,
        unknown=shown.unknown,
        age=shown.age,
        moment=shown.moment,
        chip=shown.chip,
        spark=shown.spark,
        tone=shown.tone,
        element_id=element_id,
        path_of=path_of,
        nav=NAV,
    )
    return made


class Renderer:
    """Makes HTML from templates. ``assets`` gives the URL of a static file by its name."""

    def __init__(self, assets: Mapping[str, str], version: str) -> None:
        self._environment = _environment()
        self._environment.globals.update(assets=assets, observer_version=version)

    def part(self, template: str, ident: str, **context: Any) -> Fragment:
        """One fragment; its template is given the ``id`` that its element must have."""
        html = self._environment.get_template(f"parts/{template}").render(id=ident, **context)
        return Fragment(ident, html.strip())

    def page(self, built: Built, now: float, *, path: str, here: str, view: str = "", nonce: str = "") -> str:
        """The whole page at a moment (wall seconds). ``here`` is its path and query, ``view`` what it follows.

        ``nonce`` is what the page's content policy lets style elements carry.
        """
        template = self._environment.get_template(built.template)
        groups = {name: Markup("\n").join(Markup(part.html) for part in parts) for name, parts in built.groups.items()}  # noqa: S704 - fragments were escaped when they were made
        html = template.render(
            **built.context,
            title=built.title,
            groups=groups,
            path=path,
            here=here,
            view=view if built.live else "",
            nonce=nonce,
            now=f"{now:.3f}",
            now_text=rfc3339(now),
        )
        return shown.retime(html, now)
