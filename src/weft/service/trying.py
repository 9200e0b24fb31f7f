"""Try queries on Spark before they join others: one that Spark refuses must not stop them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import SparkSession

from weft.errors import UserError, WeftError
from weft.query.logical import LogicalQuery
from weft.service.running_stream import RunningStream
from weft.spark.input.rows import ddl
from weft.spark.job.verdicts import Bounds
from weft.spark.session.troubles import is_a_querys, refusal
from weft.stream.pipeline import Pipeline

Halted = Callable[[], bool]
"""Says whether to abandon what is under way: a stop was requested."""
Try = Callable[[Sequence[LogicalQuery]], None]
"""Tries some queries on Spark together; raises the error."""


def try_out(
    pipeline: Pipeline,
    queries: Sequence[LogicalQuery],
    spark: SparkSession,
    *,
    halted: Halted = lambda: False,
) -> dict[str, WeftError]:
    """Return the queries that Spark refuses, by name, each with the reason.

    All are tried in one job without rows. Only if that fails, those at fault are searched by halves. Once
    `halted`, queries that were not tried on their own are not reported.
    """
    unknown = [query for query in queries if not pipeline.plans.computes(query)]
    if not unknown:
        return {}
    no_rows = spark.createDataFrame([], ddl(pipeline.stream.columns))

    def try_together(queries: Sequence[LogicalQuery]) -> None:
        # Spark takes long over a plan in which hundreds of queries share nothing.
        job = pipeline.plans.job_of(queries, shared=len(queries) > 1)
        job.run(no_rows, Bounds(watermark=None, future=None))

    return _refused(unknown, try_together, halted)


def try_out_all(
    streams: Mapping[str, RunningStream], queries: Iterable[LogicalQuery], *, halted: Halted
) -> dict[str, WeftError]:
    """Return which queries Spark would refuse, by name, before they join those of their streams."""
    refused: dict[str, WeftError] = {}
    by_stream: dict[str, list[LogicalQuery]] = {}
    for query in queries:
        by_stream.setdefault(query.stream, []).append(query)
    for name, joining in by_stream.items():
        if (stream := streams.get(name)) is not None:
            refused |= try_out(stream.pipeline, joining, stream.loop.spark, halted=halted)
    return refused


def _refused(queries: Sequence[LogicalQuery], attempt: Try, halted: Halted) -> dict[str, WeftError]:
    if halted():
        return {}
    try:
        attempt(queries)
    except Exception as error:
        if len(queries) == 1 or not (isinstance(error, UserError) or is_a_querys(error)):
            return {query.name: _refusal(query, error) for query in queries}
    else:
        return {}
    half = len(queries) // 2
    return _refused(queries[:half], attempt, halted) | _refused(queries[half:], attempt, halted)


def _refusal(query: LogicalQuery, error: Exception) -> WeftError:
    if isinstance(error, UserError):
        return error
    reason = refusal(query, error)
    reason.__cause__ = error
    return reason
