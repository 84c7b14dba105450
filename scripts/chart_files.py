"""Write what the chart keeps of other parts of the repository, or say which of it differs.

    python scripts/chart_files.py [--check]

The schema of ``settings`` in ``values.schema.json`` is made from `observer.settings.Settings`, so a key is in both or in
neither; the rest of the schema is ``charts/observer/schema/values.json``, written by hand. Which kinds the roles let read comes
from the platforms' own documents. Rules, dashboards and the gate's manifests are links, which helm follows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML

from observer.settings import API_VERSION, Settings
from observer.yamldoc.quantities import Duration, Listen, Network, Size
from observer.yamldoc.shape import Key, Shape, keys, shape

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "observer"
HAND_WRITTEN = CHART / "schema" / "values.json"
BESIDE_PLATFORMS = {
    "ome": [
        {"name": "inferenceservices", "group": "ome.io", "plural": "inferenceservices"},
        {"name": "rolloutpolicies", "group": "ome.io", "plural": "rolloutpolicies"},
        # Compared with the revision labels of Pods.
        {"name": "endpointslices", "group": "discovery.k8s.io", "plural": "endpointslices"},
    ]
}
"""Kinds that are read for canary analyses and that no platform's document may name, by platform."""
PATTERNS = {
    shape(Duration).type_name: "^([0-9]+([.][0-9]+)?(ms|s|m|h))+$",
    shape(Size).type_name: "^[0-9]+(B|KiB|MiB|GiB)?$",
    shape(Listen).type_name: "^.+:[0-9]{1,5}$",
    shape(Network).type_name: "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$",
}
"""How a value of each written form looks in the schema, by the form's name."""


def settings_schema() -> dict[str, Any]:
    """The JSON schema of a `Settings` document."""
    made = _mapping(Settings)
    fixed = {"apiVersion": API_VERSION, "kind": "Settings"}
    for name, value in fixed.items():
        made["properties"][name] = {"const": value, "description": "Written by the chart; may be given as this."}
    return made


def _mapping(struct: type[msgspec.Struct]) -> dict[str, Any]:
    found = keys(struct)
    required = [key.name for key in found if key.required]
    made: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _described(key) for key in found},
    }
    return made | {"required": required} if required else made


def _described(key: Key) -> dict[str, Any]:
    made = _value(key.shape)
    if key.meaning:
        made["description"] = key.meaning
    default = key.default
    if key.shape.written is not None and default is not None:
        default = key.shape.written.show(default)
    if default is not None and not isinstance(default, msgspec.Struct | tuple):
        made["default"] = default.value if isinstance(default, StrEnum) else default
    return made


def _value(want: Shape) -> dict[str, Any]:
    made = _plain(want)
    if want.optional and "type" in made:
        made["type"] = [made["type"], "null"] if isinstance(made["type"], str) else [*made["type"], "null"]
    return made


def _plain(want: Shape) -> dict[str, Any]:
    meta = want.meta
    if want.written is not None:
        kind: Any = ["string", "integer"] if want.base is int else "string"
        return {"type": kind, "pattern": PATTERNS[want.type_name]}
    if want.text_map is not None:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if want.base is tuple:
        items = {"type": "array", "items": _value(shape(want.item))}
        return {"anyOf": [items["items"], items]} if want.one_or_many else items
    if issubclass(want.base, StrEnum):
        return {"type": "string", "enum": [each.value for each in want.base]}
    if issubclass(want.base, msgspec.Struct):
        return _mapping(want.base)
    names = {str: "string", int: "integer", float: "number", bool: "boolean"}
    bounds = {
        "minimum": meta.ge, "exclusiveMinimum": meta.gt, "maximum": meta.le, "exclusiveMaximum": meta.lt,
        "minLength": meta.min_length, "maxLength": meta.max_length, "pattern": meta.pattern,
    }  # fmt: skip
    return {"type": names[want.base]} | {name: bound for name, bound in bounds.items() if bound is not None}


def platforms() -> dict[str, list[dict[str, str]]]:
    """What is read of each platform: names of its kinds, the target's first, with their groups and plurals."""
    made = {name: list(kinds) for name, kinds in BESIDE_PLATFORMS.items()}
    for path in sorted((ROOT / "observer" / "discover" / "platforms").glob("*.yaml")):
        document = YAML(typ="safe").load(path.read_text("utf-8"))
        target = document["target"]
        # where Pods are grouped there is no object, and Pods may be read anyway
        kinds = (
            [] if "groupBy" in target else [{"name": "target", "group": target["group"], "plural": target["plural"]}]
        )
        kinds += [{key: source[key] for key in ("name", "group", "plural")} for source in document.get("sources", [])]
        known = {(kind["group"], kind["plural"]) for kind in kinds}
        beside = [
            kind for kind in BESIDE_PLATFORMS.get(document["name"], []) if (kind["group"], kind["plural"]) not in known
        ]
        made[document["name"]] = [*kinds, *beside]
    return dict(sorted(made.items()))


def values_schema() -> dict[str, Any]:
    """The schema of all values: the part written by hand, with the settings in their place."""
    made: dict[str, Any] = json.loads(HAND_WRITTEN.read_text("utf-8"))
    made["properties"]["settings"] = settings_schema() | {
        "description": "The observer's Settings, key for key. What the chart itself must know is taken from here too."
    }
    found = platforms()
    sources = sorted({kind["name"] for kinds in found.values() for kind in kinds} - {"target"})
    for key, names in (("platforms", sorted(found)), ("informers", sources)):
        made["properties"][key] |= {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"type": "boolean"} for name in names},
        }
    return made


def texts() -> dict[str, str]:
    """Every made file: its path in the chart and its text."""
    return {
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        "files/platforms.json": json.dumps(platforms(), indent=1) + "\n",
    }


def differing(folder: Path = CHART) -> list[str]:
    """The files whose text is not what is made now."""
    return sorted(
        name
        for name, text in texts().items()
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text
    )


def main(arguments: Sequence[str]) -> int:
    """Write everything, or with ``--check`` write nothing and return 1 when something differs."""
    if "--check" in arguments:
        wrong = differing()
        print("\n".join(f"differs: {name}" for name in wrong) or "nothing differs")
        return 1 if wrong else 0
    made = texts()
    for name, text in made.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text, "utf-8")
    print(f"{len(made)} files of {CHART.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
