"""A stream's plan in words: the one in effect, or the one that its queries would have."""

from collections.abc import Sequence

from weft.optimizer.explain import explain
from weft.optimizer.plan import SharedPlan
from weft.optimizer.rules import Sharing, optimize
from weft.optimizer.slices import Slicing
from weft.query.logical import LogicalQuery, StreamDef
from weft.stream.pipeline import Pipeline


def explain_stream(
    stream: StreamDef,
    queries: Sequence[LogicalQuery],
    live: Pipeline | None,
    *,
    slicing: Slicing,
    sharing: Sharing,
    rows_per_second: float | None,
) -> str:
    """Return the shared plan of a stream's queries as text, with what a pipeline has measured of it."""
    if live is not None and _is_of(live.plan, queries):
        plan, measured, known = live.plan, live.fragmentations, live.plans.planner.statistics
    else:
        plan, measured, known = optimize(queries, slicing, sharing=sharing), (), None
    return explain(
        stream,
        plan,
        rows_per_second=rows_per_second,
        measured=measured,
        statistics=known,
        sharing=sharing,
    )


def _is_of(plan: SharedPlan, queries: Sequence[LogicalQuery]) -> bool:
    """Say whether a plan is that of exactly these queries."""
    return {answer.query.name for answer in plan.answers} == {query.name for query in queries}
