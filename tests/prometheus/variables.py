"""A dashboard's variables, filled as Grafana fills them: each asked in order, with the values chosen before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.dashboards.documents import fill
from tests.prometheus.server import Prometheus

LABEL_VALUES = re.compile(r"label_values\((.*), (\S+)\)", re.DOTALL)
QUERY_RESULT = re.compile(r"query_result\((.*)\)", re.DOTALL)
BUILT_IN = {"datasource": "proof", "__rate_interval": "10s"}
"""Short windows: the fleet lives for seconds."""


class NothingOffered(Exception):
    """A variable has no value to choose: nothing was scraped yet, or the last scrape came too late."""


async def values_of(server: Prometheus, variable: dict[str, Any], chosen: Mapping[str, str]) -> list[str]:
    """The values a variable offers."""
    query = fill(variable["query"], chosen)
    if asked := LABEL_VALUES.fullmatch(query):
        return await server.label_values(asked.group(1), asked.group(2))
    asked = QUERY_RESULT.fullmatch(query)
    assert asked, f"variable {variable['name']} asks {query}"
    shown = [_shown(sample) for sample in await server.query(asked.group(1))]
    pattern = re.compile(variable["regex"].strip("/"))
    return sorted({match.group(1) for text in shown if (match := pattern.search(text))})


def _shown(sample: dict[str, Any]) -> str:
    inner = ",".join(f'{name}="{value}"' for name, value in sample["metric"].items() if name != "__name__")
    return f"{sample['metric'].get('__name__', '')}{{{inner}}} {sample['value'][1]} {sample['value'][0]}"


async def choose(server: Prometheus, document: dict[str, Any], cluster: str) -> dict[str, str]:
    """Every variable of a dashboard with a value: one cluster, and everything there is to choose of the others, by name."""
    chosen = dict(BUILT_IN)
    for variable in document["templating"]["list"]:
        name = variable["name"]
        if name == "datasource":
            continue
        found = await values_of(server, variable, chosen)
        if not found or (name == "cluster" and cluster not in found):
            raise NothingOffered(f"variable {name} of {document['uid']}")
        if name == "cluster":
            chosen[name] = cluster
        elif variable.get("multi"):
            chosen[name] = f"({'|'.join(re.escape(value) for value in found)})".replace("\\", "\\\\")
        else:
            preset = (variable.get("current") or {}).get("value")
            chosen[name] = preset if preset in found else found[0]
    return chosen
