"""All benches, by the names of their commands.

To add one, write a module with a `Bench`: its options, what it measures, and how results are shown. Its
docstring is the help of the command; docs/benchmarks.md lists it and its options.
"""

from typing import Any

from weft.bench.alerts import Alerts
from weft.bench.bench import Bench
from weft.bench.churn import Churn
from weft.bench.dashboards import Dashboards
from weft.bench.fragments import Fragments, Shards
from weft.bench.memory import Memory
from weft.bench.opaque import OpaquePredicates
from weft.bench.queries import ManyQueries
from weft.bench.relations import Relations
from weft.bench.slices import Slices
from weft.bench.ways import PaperFigures
from weft.bench.windows import Windows

BENCHES: dict[str, type[Bench[Any]]] = {
    # Against ordinary Spark.
    "slices": Slices,
    "fragments": Fragments,
    "shards": Shards,
    # Ways of sharing, many windows, memory, queries that come and go, everyday queries.
    "figures": PaperFigures,
    "windows": Windows,
    "memory": Memory,
    "churn": Churn,
    "dashboards": Dashboards,
    # One part of Weft: the Spark stage, predicates, finals, reading and planning.
    "relations": Relations,
    "predicates": OpaquePredicates,
    "alerts": Alerts,
    "queries": ManyQueries,
}
