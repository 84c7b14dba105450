"""A cluster dump, as a folder of YAML and JSON files, to a world: objects and lists as `kubectl get -o yaml` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from observer.discover.platforms.engine import Found, discover, targets
from observer.discover.platforms.load import Platform
from observer.discover.platforms.members import Refusal
from observer.discover.platforms.world import World
from observer.kube.records import Document, PodDecoder, document
from router_contract.platform_facts import SourceFault

MAX_FILES = 10_000
MAX_BYTES = 256 << 20
"""Limits of one dump: its files, and the bytes of one of them."""

_SUFFIXES = {".yaml", ".yml", ".json"}


class DumpError(Exception):
    """A dump that cannot be read; the message names the file and what is wrong."""


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a dump by ``apiVersion`` and kind, each as JSON has it."""

    objects: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]

    def of(self, api_version: str, kind: str) -> Sequence[Mapping[str, Any]]:
        """The objects of one kind; any version of its group counts where the exact one has none."""
        exact = self.objects.get((api_version, kind))
        if exact is not None:
            return exact
        group = api_version.rpartition("/")[0]
        return next((found for (version, each), found in self.objects.items() if each == kind and version.rpartition("/")[0] == group), ())  # fmt: skip


def read_dump(folder: Path) -> Dump:
    """Every object below a folder (or in one file). Raises `DumpError`."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES) if folder.is_dir() else [folder]
    if not files or len(files) > MAX_FILES:
        raise DumpError(f"{folder}: found {len(files)} YAML or JSON files, wanted 1 to {MAX_FILES}")
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for file in files:
        for each in _objects(file):
            found.setdefault((str(each.get("apiVersion")), str(each.get("kind"))), []).append(each)
    return Dump(objects=found)


def _objects(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise DumpError(f"{file}: found {size} bytes, wanted at most {MAX_BYTES}")
        data = file.read_text()
        roots = (
            [msgspec.json.decode(data)] if file.suffix == ".json" else list(YAML(typ="safe", pure=True).load_all(data))
        )
    except (OSError, UnicodeDecodeError, YAMLError, msgspec.DecodeError) as error:
        raise DumpError(f"{file}: {' '.join(str(error).split())}") from error
    for root in roots:
        if root is None:
            continue
        items = root.get("items") if isinstance(root, dict) else None
        for each in items if isinstance(items, list) else [root]:
            if not isinstance(each, dict):
                raise DumpError(f"{file}: found {type(each).__name__}, wanted Kubernetes objects")
            yield each


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform finds in a dump: each deployment, and objects that could not be read."""

    found: tuple[Found, ...]
    unread: tuple[str, ...] = ()


def explain(platform: Platform, dump: Dump, *, now: float, refusal: Refusal) -> Explained:
    """Run a platform over a dump. A kind without any object in it counts as not installed, except Pods and targets."""
    unread: list[str] = []
    world = World(source.name for source in platform.document.sources)
    decode = PodDecoder()
    for each in dump.of("v1", "Pod"):
        raw = _raw(each)
        try:
            world.put_pod(decode(raw))
        except msgspec.DecodeError as error:
            unread.append(f"Pod {_name(each)}: {error}")
    for source in platform.document.sources:
        listed = dump.of(f"{source.group}/{source.version}" if source.group else source.version, source.kind)
        for document_ in _documents(listed, unread):
            world.put(source.name, document_)
        if not listed:
            fault = SourceFault(kind=source.kind, why="NotInstalled", since=now, detail="the dump has none")
            world.faults[source.name, ""] = fault
    rule = platform.document.target
    own = _documents(dump.of(platform.target.api_version, rule.kind), unread) if not rule.group_by else []
    found = [discover(platform, each, world, now=now, refusal=refusal) for each in targets(platform, own, world)]
    return Explained(found=tuple(sorted(found, key=lambda each: each.discovered.deployment.key)), unread=tuple(unread))


def _documents(listed: Sequence[Mapping[str, Any]], unread: list[str]) -> list[Document]:
    found = []
    for each in listed:
        try:
            found.append(document(_raw(each)))
        except msgspec.DecodeError as error:
            unread.append(f"{each.get('kind')} {_name(each)}: {error}")
    return found


def _raw(value: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value, enc_hook=str))


def _name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else "without metadata"
