"""The gateway's ``/engine_metrics``: every worker's exposition in one, colons turned to underscores, one more label."""

from __future__ import annotations

from collections.abc import Mapping

from observer.simulate.exposition import Style, number


def merge_expositions(bodies: Mapping[str, str]) -> str:
    """Merge expositions by worker URL. A ``worker_addr`` label is added; values are printed as the gateway prints."""
    heads: dict[str, list[str]] = {}
    lines: dict[str, list[str]] = {}
    for url, body in bodies.items():
        family = ""
        for line in body.splitlines():
            if line.startswith("# "):
                _, word, name, *rest = line.split(" ", 3)
                family = name.replace(":", "_")
                head = heads.setdefault(family, [])
                text = f"# {word} {family} {' '.join(rest)}"
                if text not in head:
                    head.append(text)
                lines.setdefault(family, [])
            elif line and family:
                lines[family].append(_line(line, url))
    return "".join("\n".join([*heads[name], *lines[name]]) + "\n\n" for name in heads)


def _line(line: str, url: str) -> str:
    series, value = line.rsplit(" ", 1)
    name, brace, labels = series.partition("{")
    inner = labels[:-1] + "," if brace else ""
    return f'{name.replace(":", "_")}{{{inner}worker_addr="{url}"}} {number(float(value), Style.RUST)}'
