"""Find the queries that make a batch fail, so that the others can go on."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from weft.optimizer.rules import leaves
from weft.query.logical import LogicalQuery
from weft.runtime.pipeline import Pipeline
from weft.spark.damaged import SPARK_ERRORS, in_a_line
from weft.spark.job import BatchJob
from weft.spark.session import utc


def find_culprits(pipeline: Pipeline, batch: DataFrame, error: Exception) -> dict[str, str]:
    """Return the queries that fail on a batch, each with its error; none if it is not the queries' fault.

    Halves of the queries are tried until each culprit stands alone: a few dozen small plans, not thousands.
    """
    queries = [live.query for live in pipeline.queries.values()]
    if not queries or _error(pipeline, batch, ()) is not None:
        return {}
    found = _among(pipeline, batch, queries)
    if not found and len(queries) == 1:
        return {queries[0].name: in_a_line(error)}
    return found


def _among(pipeline: Pipeline, batch: DataFrame, queries: Sequence[LogicalQuery]) -> dict[str, str]:
    error = _error(pipeline, batch, queries)
    if error is None:
        return {}
    if len(queries) == 1:
        return {queries[0].name: in_a_line(error)}
    half = len(queries) // 2
    return _among(pipeline, batch, queries[:half]) | _among(pipeline, batch, queries[half:])


def _error(pipeline: Pipeline, batch: DataFrame, queries: Sequence[LogicalQuery]) -> Exception | None:
    plan = leaves(queries, pipeline.planner.slicing)
    try:
        with utc(batch.sparkSession):
            job = BatchJob(plan, pipeline.stream, pipeline.tables, pipeline.functions)
            # What is known of groups is known of another plan.
            job.run(batch, replace(pipeline.bounds(), groups=()))
    except SPARK_ERRORS as error:
        return error
    return None
