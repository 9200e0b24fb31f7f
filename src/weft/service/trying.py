"""Have Spark look at queries before they join others: what it refuses must not stop them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import SparkSession

from weft.errors import UserError, WeftError
from weft.query.logical import LogicalQuery
from weft.service.running_stream import Live
from weft.spark.input.schemas import ddl
from weft.spark.job.job import Bounds
from weft.spark.session.blame import refusal
from weft.spark.session.troubles import is_a_querys
from weft.stream.pipeline import Pipeline

Halted = Callable[[], bool]
"""Says whether what is under way should be left off: a stop was asked for."""
Look = Callable[[Sequence[LogicalQuery]], None]
"""Has Spark look at some queries together; raises what it says."""


def try_out(
    pipeline: Pipeline,
    queries: Sequence[LogicalQuery],
    spark: SparkSession,
    *,
    halted: Halted = lambda: False,
) -> dict[str, WeftError]:
    """Return the queries that Spark refuses, by name, each with the reason.

    All are looked at in one job without rows. Only where that fails, those at fault are found by halves.
    Where it is `halted` before that, nothing is known of some.
    """
    unknown = [query for query in queries if not pipeline.plans.computes(query)]
    if not unknown:
        return {}
    nothing = spark.createDataFrame([], ddl(pipeline.stream.columns))

    def look(some: Sequence[LogicalQuery]) -> None:
        # Spark takes long over a plan in which hundreds of queries share nothing.
        job = pipeline.plans.job_of(some, shared=len(some) > 1)
        job.run(nothing, Bounds(watermark=None, future=None))

    return _refused(unknown, look, halted)


def try_out_all(
    streams: Mapping[str, Live], queries: Iterable[LogicalQuery], *, halted: Halted
) -> dict[str, WeftError]:
    """Return which queries Spark would refuse, by name, before they join those of the streams there are."""
    refused: dict[str, WeftError] = {}
    by_stream: dict[str, list[LogicalQuery]] = {}
    for query in queries:
        by_stream.setdefault(query.stream, []).append(query)
    for stream, several in by_stream.items():
        if (live := streams.get(stream)) is not None:
            refused |= try_out(live.pipeline, several, live.loop.spark, halted=halted)
    return refused


def _refused(queries: Sequence[LogicalQuery], look: Look, halted: Halted) -> dict[str, WeftError]:
    if halted():
        return {}
    try:
        look(queries)
    except Exception as error:
        if len(queries) == 1 or not (isinstance(error, UserError) or is_a_querys(error)):
            return {query.name: _refusal(query, error) for query in queries}
    else:
        return {}
    half = len(queries) // 2
    return _refused(queries[:half], look, halted) | _refused(queries[half:], look, halted)


def _refusal(query: LogicalQuery, error: Exception) -> WeftError:
    if isinstance(error, UserError):
        return error
    told = refusal(query, error)
    told.__cause__ = error
    return told
