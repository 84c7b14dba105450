"""The documentation holds: every link leads somewhere, every command parses, every document in it is one that loads."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from observer.cli.main import observer
from observer.settings import check_files

ROOT = Path(__file__).parents[1]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^(?: {4}|\t)(observer .*)$", re.MULTILINE)
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`(observer [a-z][^`]*)`")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)\b")
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings as a link says them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def links() -> Iterator[tuple[str, str]]:
    for page, name in zip(PAGES, NAMES, strict=True):
        for target in LINK.findall(page.read_text("utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                yield name, target


def commands() -> Iterator[tuple[str, str, bool]]:
    """Page, command, and whether it is a line to be typed and no mention in a sentence."""
    for page, name in zip(PAGES, NAMES, strict=True):
        text = page.read_text("utf-8")
        fenced = "\n".join(body for _, body in FENCED.findall(text))
        found = SHOWN.findall(text) + re.findall(r"^(?:\$ )?(observer .*)$", fenced, re.MULTILINE)
        yield from ((name, command, True) for command in found)
        yield from ((name, command, False) for command in INLINE.findall(text))


@pytest.mark.parametrize(("page", "target"), sorted(set(links())))
def test_every_link_leads_somewhere(page: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = (ROOT / page).parent / path if path else ROOT / page
    assert found.exists(), f"{page} leads to {target}"
    if anchor:
        assert anchor in anchors(found), f"{page} leads to {target}; headings: {sorted(anchors(found))}"


def told(command: str) -> list[str]:
    """The words of a documented command: without its remark, its pipe, and what stands for any number of words."""
    line = (
        re.split(r"\s+#|\s[|>]\s|;", command, maxsplit=1)[0].replace("…", "x").replace("{{ ", "{{").replace(" }}", "}}")
    )
    return [word for word in shlex.split(line) if not word.startswith("[")]


@pytest.mark.parametrize(("page", "command", "whole"), sorted(set(commands())))
def test_every_documented_command_parses(
    page: str, command: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = told(command)[1:]
    context = click.Context(observer, info_name="observer")
    verb: click.Command | None = observer
    name: str | None = "observer"
    while isinstance(verb, click.Group):
        if not words:
            return
        parent = context
        name, verb, words = verb.resolve_command(parent, words)
        assert verb is not None, f"{page}: {command}"
        context = click.Context(verb, info_name=name, parent=parent)
    monkeypatch.chdir(tmp_path)
    for word in words:
        # A file that the reader is to have is there.
        if ("." in word or word.isupper()) and not word.startswith("-") and "://" not in word:
            place = tmp_path / word
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    try:
        verb.make_context(name, list(words), parent=context.parent)
    except click.ClickException as refused:
        if isinstance(refused, click.exceptions.MissingParameter) and not whole:
            return  # in a sentence a verb may stand without all that it needs
        raise AssertionError(f"{page}: {command}: {refused.format_message()}") from refused


def test_every_make_target_that_is_named_exists() -> None:
    known = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    lines = {
        (name, target)
        for page, name in zip(PAGES, NAMES, strict=True)
        for shown in [
            *re.findall(r"`(make [^`]*)`", page.read_text("utf-8")),
            *re.findall(r"^ {4}(make .*)$", page.read_text("utf-8"), re.MULTILINE),
        ]
        for target in MAKE.findall(shown)
    }
    assert lines
    assert {(name, target) for name, target in lines if target not in known} == set()


def documents() -> Iterator[tuple[str, str]]:
    """Whole documents of ours, in fences or indented, as a page shows them."""
    for page, name in zip(PAGES, NAMES, strict=True):
        text = page.read_text("utf-8")
        blocks = [body for kind, body in FENCED.findall(text) if kind in {"yaml", ""}]
        blocks += [
            "\n".join(line[4:] for line in found.splitlines())
            for found in re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE)
        ]
        for block in blocks:
            head = block.lstrip().startswith("apiVersion: observer.modeldeployment.io/v1alpha1")
            if head and re.search(r"^kind: (Settings|Fleet|CanaryAnalysis)$", block, re.MULTILINE):
                yield name, block


@pytest.mark.parametrize(
    ("page", "text"), list(documents()), ids=lambda value: value if len(value) < 60 else "document"
)
def test_every_whole_document_loads(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(text, "utf-8")
    # An analysis names a deployment that is defined elsewhere; that alone is no fault of the page.
    wrong = [str(fault) for fault in check_files([file]) if "targetRef" not in str(fault)]
    assert wrong == [], page


def test_the_index_names_every_page_of_its_folder() -> None:
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    tracked = subprocess.run(["git", "ls-files", "docs/*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    known = {Path(name).name for name in tracked.stdout.split()} or pages
    assert {page for page in pages & known if f"({page})" not in text} == set()
