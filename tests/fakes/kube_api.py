"""A small API server over real HTTP: lists in pages, watches that can be scripted, server-side apply, Leases.

It behaves as the real one was seen to: an unchanged apply gives no new version, an undeclared field is a 500, a watch
from a future version is silently empty, `metadata.uid` in a body is ignored and `resourceVersion` is honoured.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections import deque
from typing import Any, Self

import orjson
from aiohttp import web

Json = dict[str, Any]
_PATH = re.compile(
    r"^(?P<base>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
    r"(/(?P<name>[^/]+))?(/(?P<sub>status))?$"
)
DECLARED = {"conditions", "phase", "lastObserved", "roles"}
"""The fields of every status here, unless a test says more."""


class FakeKube:
    """Use as a context. ``url`` is its base. Python calls change it from outside; ``scripts`` bend the next watches."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.events: list[tuple[int, str, Json, str]] = []
        self.oldest = 0
        self.scripts: deque[str] = deque()
        self.faults: deque[tuple[str, int, Any]] = deque()
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.managers: dict[tuple[str, str, str], dict[str, str]] = {}
        self.expire_tokens = False
        self.hang = asyncio.Event()
        self.hang.set()
        self.url = ""
        self.declared = set(DECLARED)
        self._uids = 0
        self._watches: dict[asyncio.Queue[bytes | None], tuple[web.Request, str]] = {}
        self._opened = asyncio.Condition()
        self.watches_opened = 0
        self.lists = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang.set()
        self.end_watches()
        await self._runner.cleanup()

    async def _listen(self, port: int) -> None:
        self._site = web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def down(self) -> None:
        """Nobody listens any more and what was open is cut."""
        await self._site.stop()
        self.cut_watches()

    async def up(self) -> None:
        await self._listen(self.port)

    # What the world does to it.

    def put(self, plural: str, name: str, *, namespace: str = "ns", base: str = "/api/v1", **body: Any) -> Json:
        """Create or replace an object; its uid stays while it exists."""
        key = (f"{base}/{plural}", namespace, name)
        known = self.objects.get(key)
        self.version += 1
        if known is None:
            self._uids += 1
        meta = {
            **body.pop("metadata", {}),
            "name": name,
            "namespace": namespace,
            "uid": known["metadata"]["uid"] if known else f"uid-{self._uids}",
            "resourceVersion": str(self.version),
            "generation": body.pop("generation", 1),
        }
        self.objects[key] = {"metadata": meta, **body}
        self._emit("MODIFIED" if known else "ADDED", self.objects[key], key[0])
        return self.objects[key]

    def delete(
        self, plural: str, name: str, *, namespace: str = "ns", base: str = "/api/v1", heard: bool = True
    ) -> None:
        """Delete an object; with ``heard`` False no watch ever tells, and older versions are gone."""
        key = (f"{base}/{plural}", namespace, name)
        gone = self.objects.pop(key)
        self.version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        if heard:
            self._emit("DELETED", gone, key[0])
        else:
            self.oldest = self.version

    def restore(self, version: int) -> None:
        """Go back in time as a restored backup does: later objects and events never were."""
        self.version, self.oldest = version, 0
        self.events = [each for each in self.events if each[0] <= version]
        self.objects = {
            key: each for key, each in self.objects.items() if int(each["metadata"]["resourceVersion"]) <= version
        }

    def raw(self, line: bytes) -> None:
        """Say a line of one's own to every watch."""
        for queue in self._watches:
            queue.put_nowait(line + b"\n")

    def bookmark(self, version: int | None = None) -> None:
        meta = {"resourceVersion": str(version or self.version)}
        self.raw(orjson.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": meta}}))

    def end_watches(self) -> None:
        for queue in self._watches:
            queue.put_nowait(None)

    def cut_watches(self) -> None:
        for request, _ in self._watches.values():
            if request.transport is not None:
                request.transport.abort()

    async def opened(self, count: int) -> None:
        """Wait until that many watches were opened in all."""
        async with self._opened:
            await self._opened.wait_for(lambda: self.watches_opened >= count)

    def paths(self, method: str) -> list[str]:
        return [path for verb, path, _ in self.log if verb == method]

    # What it answers.

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.log.append((request.method, request.path, dict(request.query)))
        self.headers.append(dict(request.headers))
        await self.hang.wait()
        found = _PATH.match(request.path)
        if self.faults and self.faults[0][0] in {request.method, "*"}:
            _, status, body = self.faults.popleft()
            if isinstance(body, str):
                return web.Response(status=status, text=body)
            return _json(body, status)
        if found is None:
            return _status(404, "NotFound", f"no path {request.path}")
        kind, namespace = f"{found['base']}/{found['plural']}", found["namespace"] or ""
        key = (kind, namespace, found["name"] or "")
        if request.method == "GET" and found["name"] is None:
            if request.query.get("watch"):
                return await self._watch(request, kind)
            return self._list(request, kind, namespace)
        body = orjson.loads(await request.read() or b"{}")
        if request.method != "GET":
            self.bodies.append(body)
        if request.method == "POST":
            return self._create(kind, namespace, body)
        known = self.objects.get(key)
        if request.method == "PATCH" and not found["sub"]:
            return self._apply_spec(request, key, body)
        if known is None:
            return _status(404, "NotFound", f"{found['plural']} {found['name']!r} not found")
        if request.method == "GET":
            return _json(known)
        if request.method == "DELETE":
            self.delete(found["plural"], found["name"], namespace=namespace, base=found["base"])
            return _json(known)
        guard = body.get("metadata", {}).get("resourceVersion")
        if guard and guard != known["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        if request.method == "PUT":
            return _json(self.replace(key, body))
        return self._apply(request, key, body)

    def replace(self, key: tuple[str, str, str], body: Json) -> Json:
        """What a PUT does: what the body lacks is gone, whoever wrote it."""
        self.version += 1
        meta = {**self.objects[key]["metadata"], **body.get("metadata", {}), "resourceVersion": str(self.version)}
        self.objects[key] = {**body, "metadata": meta}
        self.managers.pop(key, None)
        self._emit("MODIFIED", self.objects[key], key[0])
        return self.objects[key]

    def _create(self, kind: str, namespace: str, body: Json) -> web.Response:
        base, plural = kind.rsplit("/", 1)
        name = body["metadata"]["name"]
        if (kind, namespace, name) in self.objects:
            return _status(409, "AlreadyExists", f"{plural} {name!r} already exists")
        for field in ("renewTime", "acquireTime"):
            if plural == "leases" and not re.search(r"\.\d{6}Z$", body["spec"][field]):
                return _status(400, "BadRequest", f"{field}: wanted a fraction")
        meta = {key: value for key, value in body["metadata"].items() if key == "labels"}
        spec = body.get("spec", {})
        return _json(self.put(plural, name, namespace=namespace, base=base, metadata=meta, spec=spec), 201)

    def _apply_spec(self, request: web.Request, key: tuple[str, str, str], body: Json) -> web.Response:
        """Server-side apply of an object itself: it is created where there is none, and its status stays."""
        assert request.content_type == "application/apply-patch+yaml"
        assert request.query.get("fieldManager")
        base, plural = key[0].rsplit("/", 1)
        known = self.objects.get(key, {})
        noted = known.get("metadata", {}).get("annotations") == body["metadata"].get("annotations")
        if known.get("spec") == body["spec"] and noted:
            return _json(known)
        kept = ("labels", "annotations", "ownerReferences")
        meta = {name: body["metadata"][name] for name in kept if name in body["metadata"]}
        rest = {"status": known["status"]} if "status" in known else {}
        kinds = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
        made = self.put(plural, key[2], namespace=key[1], base=base, metadata=meta, spec=body["spec"], **kinds, **rest)
        return _json(made, 200 if known else 201)

    def _apply(self, request: web.Request, key: tuple[str, str, str], body: Json) -> web.Response:
        """Server-side apply of a status whose conditions merge by type."""
        manager = request.query.get("fieldManager", "")
        assert request.content_type == "application/apply-patch+yaml"
        if not manager:
            return _status(422, "Invalid", "fieldManager is required for apply patch")
        wanted = body["status"]
        if not set(wanted) <= self.declared:
            return _status(500, "", f".status.{(set(wanted) - self.declared).pop()}: field not declared in schema")
        known, owners = self.objects[key], self.managers.setdefault(key, {})
        held = {each["type"]: each for each in known.get("status", {}).get("conditions", [])}
        for each in wanted.get("conditions", []):
            owner = owners.get(each["type"], manager if each["type"] not in held else "before")
            if owner != manager and held.get(each["type"]) != each:
                cause = {"reason": "FieldManagerConflict", "message": f'conflict with "{owner}"', "field": each["type"]}
                return _status(409, "Conflict", f'conflict with "{owner}"', causes=[cause])
        applied = {each["type"]: each for each in wanted.get("conditions", [])}
        for name in [name for name, owner in owners.items() if owner == manager and name not in applied]:
            held.pop(name, None)
            del owners[name]
        held |= applied
        owners |= dict.fromkeys(applied, manager)
        status = {**known.get("status", {}), **wanted, "conditions": list(held.values())}
        if status != known.get("status"):
            self.version += 1
            fresh = copy.deepcopy(known)
            fresh["status"] = status
            fresh["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = fresh
            self._emit("MODIFIED", fresh, key[0])
        return _json(self.objects[key])

    def _list(self, request: web.Request, kind: str, namespace: str) -> web.Response:
        token, limit = request.query.get("continue", ""), int(request.query.get("limit", "0"))
        if token and self.expire_tokens:
            self.expire_tokens = False
            return _status(410, "Expired", "The provided continue parameter is too old")
        self.lists += limit != 1 and not token
        items = [each for key, each in sorted(self.objects.items()) if key[0] == kind and namespace in {"", key[1]}]
        start = int(token or 0)
        end = start + limit if limit else len(items)
        meta = {"resourceVersion": str(self.version)}
        if end < len(items):
            meta["continue"] = str(end)
        return _json({"kind": "List", "metadata": meta, "items": items[start:end]})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        script = self.scripts.popleft() if self.scripts else ""
        since = int(request.query["resourceVersion"])
        async with self._opened:
            self.watches_opened += 1
            self._opened.notify_all()
        if script == "gone-status" or since < self.oldest:
            return _status(410, "Expired", "too old resource version")
        if script == "too-new-status":
            return _status(504, "Timeout", "Too large resource version: 9, current: 8")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        events = {
            "gone-event": (410, "Expired"),
            "error-500": (500, "InternalError"),
            "too-new-event": (504, "Timeout"),
        }
        if script in events:
            code, reason = events[script]
            message = "Too large resource version" if code == 504 else "said by a script"
            status = {"kind": "Status", "code": code, "reason": reason, "message": message}
            await response.write(orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
            return response
        if script == "end":
            return response
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        if script != "half-open":
            for version, what, thing, of in self.events:
                if version > since and of == kind:
                    queue.put_nowait(_line(what, thing))
            self._watches[queue] = (request, kind)
        try:
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while (line := await queue.get()) is not None:
                    await response.write(line)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.pop(queue, None)
        return response

    def _emit(self, what: str, thing: Json, kind: str) -> None:
        thing = copy.deepcopy(thing)
        self.events.append((self.version, what, thing, kind))
        for queue, (_, of) in self._watches.items():
            if of == kind:
                queue.put_nowait(_line(what, thing))


def _line(what: str, thing: Json) -> bytes:
    return orjson.dumps({"type": what, "object": thing}) + b"\n"


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")


def _status(code: int, reason: str, message: str, causes: list[Json] | None = None) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return _json({**body, "details": {"causes": causes}} if causes else body, code)
