"""Find the queries that make something fail, so that the others can go on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from weft.errors import UserError
from weft.query.logical import LogicalQuery
from weft.spark.damaged import SPARK_ERRORS, in_a_line, readable
from weft.spark.session import utc

if TYPE_CHECKING:
    from weft.runtime.pipeline import Pipeline

Trial = Callable[[Sequence[LogicalQuery]], object]
"""Does with some queries what failed with all of them."""


def find_culprits(pipeline: "Pipeline", batch: DataFrame, error: Exception) -> dict[str, str]:
    """Return the queries that fail on a batch, each with its error; none if it is not the queries' fault.

    Files that cannot be read are no query's fault, and trials go without them. Whoever processes the batch
    again sets them aside.
    """
    rest, looked = batch, False

    def run(queries: Sequence[LogicalQuery]) -> None:
        nonlocal rest, looked
        with utc(batch.sparkSession):
            job = pipeline.job_of(queries)
            # What is known of groups is known of another plan.
            bounds = replace(pipeline.bounds(), groups=())
            try:
                job.run(rest, bounds)
            except SPARK_ERRORS:
                if looked:
                    raise
                (rest, files), looked = readable(batch, pipeline.stream), True
                if not files:
                    raise
                job.run(rest, bounds)

    if isinstance(error, UserError):
        return {}
    queries = [live.query for live in pipeline.queries.values()]
    found = culprits(queries, run)
    if not found and len(queries) == 1 and isinstance(error, SPARK_ERRORS) and _error(run, ()) is None:
        return {queries[0].name: reason(error)}
    return found


def culprits(queries: Sequence[LogicalQuery], trial: Trial) -> dict[str, str]:
    """Return the queries that a trial fails with, each with its error; none if it fails without them, too.

    Halves of the queries are tried until each culprit stands alone: a few dozen small plans, not thousands.
    """
    if not queries or _error(trial, ()) is not None:
        return {}
    found = _among(queries, trial)
    # Should Spark be gone by now, nothing that failed was a query's fault.
    return found if not found or _error(trial, ()) is None else {}


def reason(error: Exception) -> str:
    """Return what a query failed with in a line: with its kind, if it is Python's, as that may say the most.

    >>> reason(KeyError("NYSE")), reason(ValueError())
    ("KeyError: 'NYSE'", 'ValueError')
    """
    line = in_a_line(error)
    if isinstance(error, SPARK_ERRORS) or not str(error).strip():
        return line
    return f"{type(error).__name__}: {line}"


def _among(queries: Sequence[LogicalQuery], trial: Trial) -> dict[str, str]:
    error = _error(trial, queries)
    if error is None:
        return {}
    if len(queries) == 1:
        return {queries[0].name: reason(error)}
    half = len(queries) // 2
    return _among(queries[:half], trial) | _among(queries[half:], trial)


def _error(trial: Trial, queries: Sequence[LogicalQuery]) -> Exception | None:
    try:
        trial(queries)
    except UserError:
        # A table that cannot be read, for example: that is told as it is.
        raise
    except Exception as error:
        # A registered function that is given columns may raise anything.
        return error
    return None
