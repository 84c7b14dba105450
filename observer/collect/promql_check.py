"""Whether a query can be sent at all: it renders, and it parses as PromQL to something that can be judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import promql_parser

from observer.judge.canary.display import message
from observer.judge.canary.template import TemplateFault, render
from router_contract.canary_inputs import QueryTrouble
from router_contract.canary_results import Reason

MAX_DEPTH: Final = 64
MAX_OPERATORS: Final = 256
"""What is nested deeper or chained longer is not given to the parser: it would run out of stack, which no error tells
of, and the process with it. Both are far above any query that people write."""
_QUOTED: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`|#[^\n]*", re.DOTALL)
_SELECTOR: Final = re.compile(r"\{[^{}]*\}")
_OPERATOR: Final = re.compile(r"[-+*/%^<>=!]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_UNJUDGED: Final = {
    "StringLiteral": "a text",
    "MatrixSelector": "a range of values; take rate() or another function of it",
    "SubqueryExpr": "a range of values; take max_over_time() or another function of it",
}


def prepared(query: str, variables: Mapping[str, str]) -> str | QueryTrouble:
    """The rendered query, or why it cannot be sent (permanent trouble)."""
    text = render(query, variables)
    if isinstance(text, TemplateFault):
        return QueryTrouble(reason=text.reason, detail=text.detail, permanent=True, query=query)
    deep = _too_deep(text)
    if deep is not None:
        return QueryTrouble(reason=Reason.QUERY_INVALID, detail=deep, permanent=True, query=text)
    try:
        parsed = promql_parser.parse(text)
    except ValueError as error:
        said = message(f"the query does not parse: {error}")
        return QueryTrouble(reason=Reason.QUERY_INVALID, detail=said, permanent=True, query=text)
    what = _UNJUDGED.get(type(parsed).__name__)
    if what is not None:
        said = f"the query gives {what}"
        return QueryTrouble(reason=Reason.UNSUPPORTED_TYPE, detail=said, permanent=True, query=text)
    return text


def _too_deep(text: str) -> str | None:
    """Why a query cannot be parsed safely, or ``None``. What stands in texts, comments and selectors nests nothing."""
    plain = _SELECTOR.sub("", _QUOTED.sub("", text))
    depth = deepest = 0
    for char in plain:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        return f"the query nests {deepest} deep, at most {MAX_DEPTH} are read"
    count = sum(1 for _ in _OPERATOR.finditer(plain))
    return f"the query has {count} operators, at most {MAX_OPERATORS} are read" if count > MAX_OPERATORS else None
