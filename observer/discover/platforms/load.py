"""Platform documents: the built-in ones from our package and the user's files, with every fault of every file."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from observer.discover.platforms.check import check
from observer.discover.platforms.document import PlatformDocument, SourceRule
from observer.kube.resources import PODS, Resource
from observer.yamldoc.decode import Tracker
from observer.yamldoc.faults import Fault, shown
from observer.yamldoc.nodes import Document, expand, read_bytes, read_documents

API_VERSION = "observer.modeldeployment.io/v1alpha1"
KIND = "Platform"
_BUILT_IN = Path(__file__).parent


class PlatformError(Exception):
    """Platform documents that cannot be used; ``faults`` are all of them, in the order of files and lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.order))
        super().__init__("\n".join(map(str, self.faults)))


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """One checked platform. ``file`` is where it was read."""

    file: str
    document: PlatformDocument

    @property
    def name(self) -> str:
        """Its short name, as `Deployment.platform` has it."""
        return self.document.name

    @property
    def target(self) -> Resource:
        """The resource that stands for a deployment; Pods where no object does."""
        rule = self.document.target
        if rule.group_by:
            return PODS
        return Resource(group=rule.group, version=rule.version, plural=rule.plural, kind=rule.kind)

    def source(self, name: str) -> SourceRule:
        """A declared source. Raises `KeyError`, which `check` excludes."""
        for rule in self.document.sources:
            if rule.name == name:
                return rule
        raise KeyError(name)


def load_platforms(extra_files: Sequence[Path] = (), names: Sequence[str] = ()) -> tuple[Platform, ...]:
    """The built-in platforms and those of ``extra_files`` (files or folders), which replace built-in ones by name.

    With ``names`` only those. Raises `PlatformError` with every fault.
    """
    faults: list[Fault] = []
    found = {each.name: each for each in built_in()}
    own: dict[str, str] = {}
    for each in _read(expand(extra_files), faults):
        if each.name in own:
            wanted = f"each platform once, first in {own[each.name]}"
            faults.append(Fault(file=each.file, path="name", found=f"{shown(each.name)} a second time", wanted=wanted))
        own[each.name] = each.file
        found[each.name] = each
    for name in names:
        if name not in found and not faults:
            faults.append(Fault(file="settings", found=f"the platform {shown(name)}", wanted=", ".join(sorted(found))))
    if faults:
        raise PlatformError(faults)
    return tuple(each for name, each in found.items() if not names or name in names)


@functools.cache
def built_in() -> tuple[Platform, ...]:
    """The platforms that come with us, by name."""
    faults: list[Fault] = []
    found = tuple(_read(sorted(_BUILT_IN.glob("*.yaml")), faults))
    if faults:
        raise PlatformError(faults)
    return found


def read_platform(text: str, file: str = "text") -> Platform:
    """One platform from YAML text. Raises `PlatformError`."""
    faults: list[Fault] = []
    found = _of_text(file, text.encode(), faults)
    if not faults and len(found) != 1:
        faults.append(Fault(file=file, found=f"{len(found)} documents", wanted="one Platform document"))
    if faults:
        raise PlatformError(faults)
    return found[0]


def _read(files: Iterable[Path], faults: list[Fault]) -> list[Platform]:
    found: list[Platform] = []
    for file in files:
        data = read_bytes(file)
        if isinstance(data, Fault):
            faults.append(data)
        else:
            found += _of_text(str(file), data, faults)
    return found


def _of_text(file: str, data: bytes, faults: list[Fault]) -> list[Platform]:
    documents, unreadable = read_documents(file, data)
    faults += unreadable
    if not documents and not unreadable:
        faults.append(Fault(file=file, found="nothing", wanted="a Platform document"))
    found: list[Platform] = []
    for document in documents:
        made = _of_document(document, faults)
        if made is not None:
            found.append(made)
    return found


def _of_document(document: Document, faults: list[Fault]) -> Platform | None:
    tracker = Tracker(document.file)
    head: dict[str, str] = {}
    body = []
    for key, value in document.root.value:
        if key.value in {"apiVersion", "kind"}:
            head[key.value] = str(value.value)
        else:
            body.append((key, value))
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if head.get(name) != wanted:
            shown_value = shown(head[name]) if name in head else "nothing"
            faults.append(
                Fault(file=document.file, line=document.line, column=1, path=name, found=shown_value, wanted=wanted)
            )
    root = document.root
    root.value = body
    made = tracker.decode(root, PlatformDocument)
    if made is not None:
        check(made, tracker)
    faults += tracker.faults
    return None if made is None or tracker.faults else Platform(file=document.file, document=made)
