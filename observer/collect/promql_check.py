"""Whether a query can be sent at all: it renders, and it parses as PromQL to something that can be judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import promql_parser

from observer.judge.canary.display import message
from observer.judge.canary.template import TemplateFault, render
from router_contract.canary_inputs import QueryTrouble
from router_contract.canary_results import Reason

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
