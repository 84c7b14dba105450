"""The PromQL that every dashboard shares: selectors by variable, groupings, rates, quantiles, ages.

A Prometheus that scrapes us without ``honorLabels`` renames our ``namespace`` and ``pod`` to ``exported_…``. So no query
names these two labels: it names the variables that hold what they are called there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NAMESPACE: Final = "$ns_label"
"""What our label ``namespace`` is called in the store that is asked."""
POD: Final = "$pod_label"
"""What our label ``pod`` is called there."""

CLUSTER_IS: Final = 'cluster=~"$cluster"'
DEPLOYMENT_IS: Final = f'{CLUSTER_IS}, {NAMESPACE}=~"$namespace", deployment=~"$deployment"'
ROLE_IS: Final = f'{DEPLOYMENT_IS}, role=~"$role"'
POD_IS: Final = f'{ROLE_IS}, {POD}=~"$pod"'

BY_DEPLOYMENT: Final = f"cluster, {NAMESPACE}, deployment"
BY_ROLE: Final = f"{BY_DEPLOYMENT}, role"
BY_POD: Final = f"{BY_ROLE}, {POD}"
BY_RANK: Final = f"{BY_POD}, rank"

DEPLOYMENT: Final = f"{{{{{NAMESPACE}}}}}/{{{{deployment}}}}"
"""Legend of a deployment's series."""
ROLE: Final = f"{DEPLOYMENT} {{{{role}}}}"
RANK: Final = f"{{{{{POD}}}}} {{{{rank}}}}"
WINDOW: Final = "$__rate_interval"


class Query(NamedTuple):
    """One query of a panel, its legend, and what its column is called in a table."""

    expr: str
    legend: str = ""
    column: str = ""
    unit: str = ""


def best(by: str, selector: str) -> str:
    """One series for each label set, whichever observer exposes it: levels must not double while two of them run."""
    return f"max by ({by}) ({selector})"


def rate(by: str, selector: str) -> str:
    """Increase per second, summed by some labels."""
    return f"sum by ({by}) (rate({selector}[{WINDOW}]))"


def busiest(by: str, selector: str) -> str:
    """Increase per second of the busiest role: a request of a disaggregated deployment passes each role once."""
    return f"max by ({by}) (sum by ({by}, role) (rate({selector}[{WINDOW}])))"


def quantile(share: float, by: str, name: str, selector: str) -> str:
    """A quantile of a histogram over the window; nothing where nothing happened, rather than NaN."""
    buckets = f"sum by ({by}, le) (rate({name}_bucket{{{selector}}}[{WINDOW}]))"
    count = f"sum by ({by}) (rate({name}_count{{{selector}}}[{WINDOW}]))"
    return f"histogram_quantile({share}, {buckets}) and on ({by}) ({count} > 0)"


def mean(by: str, name: str, selector: str) -> str:
    """The mean of a histogram over the window; nothing where nothing happened."""
    return ratio(rate(by, f"{name}_sum{{{selector}}}"), rate(by, f"{name}_count{{{selector}}}"))


def ratio(part: str, whole: str) -> str:
    """A share; nothing where the whole is 0. Both sides are already summed over the same labels."""
    return f"{part} / ({whole} > 0)"


def age(by: str, selector: str) -> str:
    """Seconds since the newest of some timestamps, for each label set."""
    return f"time() - {best(by, selector)}"


def holds(by: str, word: str, name: str, selector: str) -> str:
    """The word of a state set that holds now, as a label."""
    return best(f"{by}, {word}", f"{name}{{{selector}}} == 1")
