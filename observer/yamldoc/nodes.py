"""YAML text to composed nodes that know their file, line and column; syntax faults of one document spare the others."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node

from observer.yamldoc.faults import Fault

MAX_FILE_BYTES = 2 << 20
MAX_DOCUMENTS = 1_000
MAX_DEPTH = 128
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_BOUNDARY = re.compile(r"---(\s|$)")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One YAML document: its file's name as given, the 1-based line it begins at, and its root mapping."""

    file: str
    line: int
    root: MappingNode


class _Named(io.StringIO):
    """A text stream with the file's name, so that every mark carries it."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files to read: a folder stands for its ``*.yaml`` and ``*.yml`` files by name, anything else for itself."""
    files: list[Path] = []
    for path in paths:
        try:
            items = sorted(path.iterdir()) if path.is_dir() else [path]
        except OSError:
            items = [path]  # reading it as a file says why it cannot be read
        plain = (item for item in items if item.suffix in {".yaml", ".yml"} and not item.name.startswith("."))
        files += items if items == [path] else plain
    return files


def read_bytes(path: Path) -> bytes | Fault:
    """A file's bytes, at most `MAX_FILE_BYTES`, or the fault that says why not. Waits for nobody: a pipe is no file."""
    try:
        # Without O_NONBLOCK opening a pipe waits for its writer, and looking first would leave a moment to swap it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            kind = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(kind):
                return Fault(file=str(path), found=_KINDS.get(stat.S_IFMT(kind), "no file"), wanted="a regular file")
            with open(descriptor, "rb", closefd=False) as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
        return Fault(file=str(path), found=found, wanted="a readable YAML file")
    if len(data) > MAX_FILE_BYTES:
        return Fault(
            file=str(path),
            found=f"more than {MAX_FILE_BYTES >> 20} MiB",
            wanted=f"a file of at most {MAX_FILE_BYTES >> 20} MiB",
            hint="Split it into several files.",
        )
    return data


def read_documents(file: str, data: bytes) -> tuple[list[Document], list[Fault]]:
    """Every document of a file that can be read, and a fault for each that cannot. Empty documents are left out."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        head = data[: error.start]
        line, column = head.count(b"\n") + 1, error.start - (head.rfind(b"\n") + 1) + 1
        return [], [
            Fault(file=file, line=line, column=column, found=f"the byte 0x{data[error.start]:02x}", wanted="UTF-8 text")
        ]
    chunks = _split(text)
    if len(chunks) > MAX_DOCUMENTS:
        found = f"{len(chunks)} documents"
        return [], [Fault(file=file, found=found, wanted=f"at most {MAX_DOCUMENTS} documents in one file")]
    documents: list[Document] = []
    faults: list[Fault] = []
    for line, chunk in chunks:
        outcome = _compose(file, line, chunk)
        if isinstance(outcome, Fault):
            faults.append(outcome)
        elif outcome is not None:
            documents.append(outcome)
    return documents, faults


def _split(text: str) -> list[tuple[int, str]]:
    """(0-based first line, text) of each document: at column 0 ``---`` always begins one, whatever surrounds it."""
    chunks: list[tuple[int, list[str]]] = [(0, [])]
    for number, line in enumerate(text.split("\n")):
        lines = chunks[-1][1]
        if _BOUNDARY.match(line) and not all(not seen.strip() or seen.startswith(("#", "%")) for seen in lines):
            chunks.append((number, []))
        chunks[-1][1].append(line)
    return [(first, "\n".join(lines)) for first, lines in chunks]


def _compose(file: str, line: int, chunk: str) -> Document | Fault | None:
    reader: Any = YAML(typ="rt", pure=True)
    reader.max_depth = MAX_DEPTH
    reader.composer.warn_double_anchors = False  # YAML allows an anchor's name to be used again
    try:
        node: Node | None = reader.compose(_Named("\n" * line + chunk, file))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (mark.line + 1, mark.column + 1) if mark is not None else (line + 1, 1)
        found, wanted, hint = _reworded(error.problem or error.context or "text that is no YAML")
        return Fault(file=file, line=where[0], column=where[1], found=found, wanted=wanted, hint=hint)
    except YAMLError as error:
        return _unreadable_character(file, line, chunk, error)
    except RecursionError:
        return Fault(
            file=file, line=line + 1, column=1, found="very deep nesting", wanted="a document a person can read"
        )
    if node is None or (node.tag or "").endswith(":null"):
        return None
    if not isinstance(node, MappingNode):
        mark = node.start_mark
        return Fault(
            file=file,
            line=mark.line + 1,
            column=mark.column + 1,
            found="a list" if (node.tag or "").endswith(":seq") else "a plain value",
            wanted="a mapping with `apiVersion` and `kind`",
        )
    return Document(file=file, line=node.start_mark.line + 1, root=node)


def _unreadable_character(file: str, line: int, chunk: str, error: YAMLError) -> Fault:
    """The place of a character that YAML forbids (the reader tells only its offset in a buffer)."""
    character = getattr(error, "character", None)
    number = character if isinstance(character, int) else ord(character or "\0")
    for offset, row in enumerate(chunk.split("\n")):
        column = row.find(chr(number))
        if column >= 0:
            found = f"the character U+{number:04X}"
            return Fault(
                file=file, line=line + offset + 1, column=column + 1, found=found, wanted="printable characters"
            )
    return Fault(file=file, line=line + 1, column=1, found=str(error), wanted="well-formed YAML")


_EXPECTED = re.compile(r"^expected (.+?),? but (?:found|got) (.+)$", re.DOTALL)
_TOKENS = {
    "'<stream end>'": "the end of the document",
    "'<block mapping start>'": "a mapping",
    "'<block sequence start>'": "a list",
    "'<scalar>'": "a value",
    "'<block end>'": "the end of the block",
    "<block end>": "the end of the block",
    "the node content": "a value",
}
_SAID = {
    "mapping values are not allowed here": ("a `:` where no value may begin", "Quote a text with `: ` in it."),
    "sequence entries are not allowed here": ("a `-` where no list may begin", ""),
    "mapping keys are not allowed here": ("a `?` where no key may begin", ""),
    "could not find expected ':'": ("a line that is no key", "A key ends with `:`."),
}


def _reworded(problem: str) -> tuple[str, str, str]:
    """What was found, what was wanted, and what to do, from the parser's sentence."""
    if problem.startswith("maximum depth"):
        return "very deep nesting", "well-formed YAML", ""
    if problem in _SAID:
        found, hint = _SAID[problem]
        return found, "well-formed YAML", hint
    pair = _EXPECTED.match(problem)
    if pair is not None:
        wanted, found = pair.groups()
        return _TOKENS.get(found, found), _TOKENS.get(wanted, wanted), ""
    found = problem.removeprefix("found ")
    if found.startswith("character "):
        hint = "Indent with blanks." if "\\t" in found else "Quote the text."
        return "the " + found.replace("that cannot start any token", "where a value begins"), "well-formed YAML", hint
    return found, "well-formed YAML", ""
