"""What a request is about: its path as a resource of our group or as something else, and the verb it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from exporters.aggregated.access import Attributes
from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.resources import BASE, GROUP, VERSION

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_TRUE = {"true", "1", ""}
_SEGMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_LONGEST = 4096


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request: its path, what that asks for, whether it names a resource, and whether it wants to watch."""

    path: str
    attributes: Attributes
    is_resource: bool = False
    watch: bool = False
    tail: tuple[str, ...] = ()


def read_path(raw: str) -> str:
    """The path, decoded. Raises `RefusalError` (400, 414) for one that others could read differently than we do."""
    if len(raw) > _LONGEST:
        raise RefusalError(414, f"the path has {len(raw)} characters, at most {_LONGEST}")
    lower = raw.lower()
    path = unquote(raw)
    segments = path.split("/")
    if "%2f" in lower or "%5c" in lower or "\\" in path or "//" in path or not path.isprintable():
        raise RefusalError(400, "the path has an encoded or repeated slash, or characters that are no text")
    if not path.startswith("/") or any(segment in {".", ".."} for segment in segments):
        raise RefusalError(400, "the path has a segment '.' or '..'")
    return path


def ask(method: str, raw: str, query: Mapping[str, str]) -> Asked:
    """What is asked. Raises `RefusalError` (400) for a path that cannot be read."""
    path = read_path(raw)
    if not path.startswith(f"{BASE}/"):
        return Asked(path=path, attributes=Attributes(verb=method.lower(), path=path))
    parts = path.removeprefix(f"{BASE}/").rstrip("/").split("/")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) >= 3:
        namespace, parts = parts[1], parts[2:]
    if any(not _SEGMENT.fullmatch(part) for part in (*parts[:3], *([namespace] if namespace else []))):
        raise RefusalError(400, f"{path[:200]!r} has a segment that is no name")
    name, subresource = (*parts[1:3], "", "")[:2]
    watch = not name and query.get("watch", "false").lower() in _TRUE and "watch" in query
    return Asked(
        path=path,
        is_resource=True,
        watch=watch,
        tail=tuple(parts[3:]),
        attributes=Attributes(
            verb="watch" if watch else _verb(method, name),
            group=GROUP,
            version=VERSION,
            resource=parts[0],
            subresource=subresource,
            namespace=namespace,
            name=name,
        ),
    )


def _verb(method: str, name: str) -> str:
    if method in {"GET", "HEAD"}:
        return "get" if name else "list"
    verb = _VERBS.get(method, method.lower())
    return "deletecollection" if verb == "delete" and not name else verb
