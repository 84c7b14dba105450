"""The page's own files and bokeh's browser file: read once, compressed at first use, served under names that hold their hash."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import msgspec
from aiohttp import web

from exporters.page.render import FOLDER

PREFIX = "/static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


class Asset(msgspec.Struct, frozen=True):
    """One file: its type, its bytes, and its URL."""

    content_type: str
    plain: bytes
    url: str


def _asset(name: str, path: Path) -> Asset:
    plain = path.read_bytes()
    digest = hashlib.sha256(plain).hexdigest()[:12]
    return Asset(_TYPES[path.suffix], plain, f"{PREFIX}/{digest}/{name}")


def _bokeh() -> Path | None:
    """Where the bokeh package has its browser file. Only its place is looked up: importing bokeh costs a second."""
    found = find_spec("bokeh")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "server" / "static" / "js" / "bokeh.min.js"
    return path if path.is_file() else None


class Assets:
    """Every static file. Without bokeh's the charts are left out, and the page says so."""

    def __init__(self) -> None:
        files = {path.name: path for path in sorted((FOLDER / "static").iterdir()) if path.suffix in _TYPES}
        self._assets = {name: _asset(name, path) for name, path in files.items()}
        bokeh = _bokeh()
        if bokeh is not None:
            self._assets["bokeh/bokeh.min.js"] = _asset("bokeh/bokeh.min.js", bokeh)
        self._by_url = {asset.url: asset for asset in self._assets.values()}
        self._packed: dict[str, bytes] = {}

    @property
    def urls(self) -> Mapping[str, str]:
        """The URL of each file by its name."""
        return MappingProxyType({name: asset.url for name, asset in self._assets.items()})

    def routes(self) -> list[web.AbstractRouteDef]:
        """The one path under which they are."""
        return [web.get(PREFIX + "/{digest}/{name:.+}", self.serve)]

    def _pack(self, asset: Asset) -> bytes:
        """The file compressed, once, when it is first asked for: most processes never show a chart."""
        found = self._packed.get(asset.url)
        if found is None:
            found = self._packed[asset.url] = gzip.compress(asset.plain, 9, mtime=0)
        return found

    async def serve(self, request: web.Request) -> web.Response:
        """A file, compressed where the browser takes that; 404 for a name or hash that is not of this version."""
        asset = self._by_url.get(request.path)
        if asset is None:
            raise web.HTTPNotFound
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        headers = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding"}
        if packed:
            headers["Content-Encoding"] = "gzip"
        body = self._pack(asset) if packed else asset.plain
        return web.Response(body=body, content_type=asset.content_type, charset="utf-8", headers=headers)
