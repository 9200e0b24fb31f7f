"""Find the queries that make a batch fail."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from weft.errors import UserError
from weft.query.logical import LogicalQuery
from weft.spark.input.unread import SPARK_ERRORS, readable
from weft.spark.session.local import utc
from weft.spark.session.troubles import culprits

if TYPE_CHECKING:
    from weft.stream.pipeline import Pipeline


def find_culprits(pipeline: "Pipeline", batch: DataFrame, error: Exception) -> dict[str, str]:
    """Return the queries that fail on a batch, each with its error; none if it is not the queries' fault.

    Files that cannot be read are no query's fault, and trials leave them out. Processing the batch again sets
    them aside.
    """
    rest, checked = batch, False

    def run(queries: Sequence[LogicalQuery]) -> None:
        nonlocal rest, checked
        with utc(batch.sparkSession):
            job = pipeline.plans.job_of(queries)
            # What is known of groups is known of another plan.
            bounds = replace(pipeline.bounds(), groups={})
            try:
                job.run(rest, bounds)
                return
            except SPARK_ERRORS:
                if checked:
                    raise
                (rest, files), checked = readable(batch, pipeline.stream), True
                if not files:
                    raise
            job.run(rest, bounds)

    if isinstance(error, UserError):
        return {}
    return culprits([live.query for live in pipeline.queries.values()], run, error)
