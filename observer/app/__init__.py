"""The composition root: builds every object, opens the one task group, joins the parts, and stops them in order."""

from observer.app.run import run_canary_simulation, run_demo, run_replay, run_serve
from observer.app.serve_cluster import ClusterError, run_serve_cluster

__all__ = [
    "ClusterError",
    "run_canary_simulation",
    "run_demo",
    "run_replay",
    "run_serve",
    "run_serve_cluster",
]
