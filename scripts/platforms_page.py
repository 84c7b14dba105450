"""Write ``docs/platforms.md`` from the platforms' own documents; ``--check`` exits 1 when the page differs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from reference_markdown import code, table  # noqa: E402 - the path is set just above

from observer.discover.platforms import Platform, built_in  # noqa: E402
from observer.discover.platforms.document import Replacement, RoleRule, StatusPolicy  # noqa: E402
from observer.discover.platforms.document_facts import ReasonRule  # noqa: E402
from observer.discover.platforms.values import Take  # noqa: E402
from router_contract import catalog  # noqa: E402
from router_contract.targets import Component  # noqa: E402

PAGE = ROOT / "docs" / "platforms.md"
INTRODUCTION = """# Platforms

Written by `make docs` from `observer/discover/platforms/*.yaml`; a test compares. Change those, not this page. One more platform
is one more file: `docs/add-a-platform.md`.

The observer follows every platform whose kind it may read, and reads Pods and further kinds of a platform only once one of its
objects exists. What it cannot see on a platform stands below, is Unknown in every answer, and is never taken for absent or well.
`observer check --platform NAME --dump DIR` shows what it would find in a cluster dump.
"""


def made() -> tuple[str, int]:
    """The page and the number of platforms on it."""
    platforms = built_in()
    head = (
        "platform",
        "a deployment is",
        "its router",
        "how many are wanted",
        "groups of Pods",
        "retirement",
        "replacement",
    )
    lines = [INTRODUCTION, *table(head, (_summary(each) for each in platforms))]
    lines += [
        "*Not told* is what the platform keeps to itself: the observer says Unknown there, or leaves the leg out.",
        "",
    ]
    for each in platforms:
        lines += _section(each)
    return "\n".join(lines).rstrip() + "\n", len(platforms)


def _summary(platform: Platform) -> tuple[str, ...]:
    document = platform.document
    counted = all(role.desired is not None or role.workloads for role in document.roles)
    replicas = document.replicas
    announced = replicas.retiring or document.facts.retirement or document.facts.records
    replaced = {
        Replacement.PODS: "told by Pods on one place",
        Replacement.REVISION: "told by the Pods' templates",
        Replacement.UNOBSERVED: "told by its records" if document.facts.records else "not told",
    }
    return (
        f"[{platform.document.title or platform.name}](#{_anchor(platform)})",
        _object(platform),
        _router(platform),
        "told" if counted else "not told",
        "told" if replicas.ordinal or replicas.group else "each Pod by itself",
        "told before a Pod goes" if announced else "seen when a Pod goes",
        replaced[replicas.replacement],
    )


def _anchor(platform: Platform) -> str:
    kept = (each for each in _title(platform).lower() if each.isalnum() or each in " -_")
    return "".join(kept).replace(" ", "-")


def _title(platform: Platform) -> str:
    return platform.document.title or platform.name


def _object(platform: Platform) -> str:
    target = platform.document.target
    if target.group_by:
        return "Pods that agree in " + ", ".join(map(code, target.group_by))
    return code(f"{target.plural}.{target.group}")


def _router(platform: Platform) -> str:
    rule = platform.document.router
    if rule is None:
        return "none is found"
    known = sorted({word for take in rule.software for word in _outcomes(take)})
    tables = set(catalog.TABLES[Component.ROUTER])
    return ", ".join(name if name in tables else f"{name} (listed, not read)" for name in known) or "as its label says"


def _outcomes(take: Take) -> Iterator[str]:
    if take.fixed is not None:
        yield take.fixed
    yield from (new for _, new in take.map)


def _section(platform: Platform) -> Iterator[str]:
    document = platform.document
    target = document.target
    yield f"## {_title(platform)}"
    yield ""
    name = f"{document.name}-<deployment>"
    if target.group_by:
        yield f"Platform {code(document.name)}; observations are called {code(name)}. No object stands for a deployment: {_object(platform)} are one."
    else:
        resource = f"{target.plural}.{target.version}.{target.group}"
        yield f"Platform {code(document.name)}; observations are called {code(name)}. A deployment is one {target.kind} ({code(resource)})."
    yield ""
    yield from _told(platform)
    yield "**Cannot be seen:**"
    yield ""
    yield from (f"- {each}" for each in document.blind)
    yield ""
    if document.reasons:
        yield "**Its own words**, and what `observer explain` says beside them:"
        yield ""
        yield from table(
            ("condition", "reason", "what it calls for", "whose", "advice"), map(_reason, document.reasons)
        )
    if document.notes:
        yield "**What its users ask**, answered beside an explanation where it applies:"
        yield ""
        yield from (f"- {each.topic}: {each.says}" for each in document.notes)
        yield ""


def _told(platform: Platform) -> Iterator[str]:
    document = platform.document
    target = document.target
    yield f"- Roles: {', '.join(_role(each) for each in document.roles)}."
    read = [f"{each.kind} ({code(each.name)})" for each in document.sources]
    yield f"- Read beside it: Pods{''.join(', ' + each for each in read)}."
    yield f"- A member is ready when its Pod has {' and '.join(code(each) for each in document.ready)} True."
    if document.facts.order:
        yield f"- Its conditions in the order in which they are read: {', '.join(map(code, document.facts.order))}."
    if document.facts.events:
        yield f"- Its Events that are read on demand: {', '.join(code(each.reason) for each in document.facts.events)}."
    if not target.group_by:
        never = target.status_policy is StatusPolicy.NEVER
        yield (
            "- Conditions of ours are never added to the object."
            if never
            else ("- Conditions of ours are added to the object where its definition merges conditions by type.")
        )
    yield ""


def _role(rule: RoleRule) -> str:
    if rule.each is not None:
        return f"each item of {code(rule.each)}"
    if rule.each_label is not None:
        return f"each value of the Pod label {code(rule.each_label)}"
    return " or ".join(code(each.fixed or "") or "a name it says" for each in rule.name)


def _reason(rule: ReasonRule) -> tuple[str, ...]:
    condition = code(rule.condition) or "any"
    phase = f" in phase {rule.in_phase}" if rule.in_phase else ""
    return condition, (code(rule.reason) or "any") + phase, rule.course.value, rule.whose, rule.hint


def main() -> int:
    """Write or compare the page."""
    text, count = made()
    different = "--check" in sys.argv and (not PAGE.is_file() or PAGE.read_text("utf-8") != text)
    if "--check" not in sys.argv:
        PAGE.write_text(text, "utf-8")
    print(
        f"figure: {count} platforms on the page; {'it differs: run `make docs`' if different else 'as their documents say'}"
    )
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
