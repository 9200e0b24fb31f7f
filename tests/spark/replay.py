"""Replay an oracle's case through Weft, batch by batch; queries come and go as the case says."""

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.oracle.cases import STREAM, TIME, Case, arrow_table
from tests.oracle.registered import Function
from tests.oracle.spec import Spec, WindowSyntax
from weft.optimizer.slices import Slicing
from weft.query import CreateStream, bind, parse, parse_select
from weft.query.logical import LogicalQuery, StreamDef, TableDef
from weft.spark.columns import Udf
from weft.spark.input.declarations import Declarations
from weft.state.clock import Clock
from weft.state.report import BatchReport
from weft.stream.pipeline import Pipeline


class Replayed:
    """What Weft gave for a case."""

    def __init__(self, reports: list[BatchReport], clock: Clock) -> None:
        self.reports = reports
        self.clock = clock

    def results(self, name: str) -> pa.Table | list[object]:
        """Return all results of a query."""
        parts = [report.results[name] for report in self.reports if name in report.results]
        return pa.concat_tables(parts) if parts else []

    def failures(self, name: str) -> int:
        """Return how many rows or results of a query failed."""
        return sum(report.failures.get(name, 0) for report in self.reports)


def stream_of(case: Case) -> StreamDef:
    """Return the case's stream as a workload would declare it."""
    text = (
        f"CREATE STREAM {STREAM} ({case.ddl()}) USING memory EVENT TIME {TIME} "
        f"DELAY '{case.delay_ms} ms' SKEW NONE"
    )
    (statement,) = parse(text)
    assert isinstance(statement, CreateStream)
    return statement.definition


def udf_of(function: Function) -> Udf:
    """Return a registered function as Spark's."""
    # Not the function itself: PySpark would read its annotations.
    return F.udf(lambda *values: function.call(*values), str(function.type).lower())


def declared(spark: SparkSession, case: Case) -> Declarations:
    """Return the case's stream, tables and functions as an engine would hold them."""
    found = Declarations(lambda: spark)
    found.stream(stream_of(case))
    for table in case.tables:
        frame = spark.createDataFrame(arrow_table(table.columns, table.rows))
        found.table(TableDef(name=table.name), frame=frame)
    for function in case.functions:
        found.function(function.name, udf_of(function), str(function.type).lower())
    return found


class Player:
    """A pipeline to which a case's queries come and go."""

    def __init__(self, spark: SparkSession, case: Case, *, slicing: Slicing, syntax: WindowSyntax) -> None:
        self.case, self.syntax = case, syntax
        self.names = declared(spark, case)
        self.pipeline = Pipeline(
            stream_of(case), tables=self.names.tables, functions=self.names.functions, slicing=slicing
        )

    def query(self, spec: Spec) -> LogicalQuery:
        """Return a query as Weft understands it."""
        text = spec.sql(STREAM, TIME, self.syntax)
        return bind(parse_select(text, name=spec.name), self.names.catalog())

    def before(self, batch: int) -> None:
        """Remove and add the queries that leave and come before a batch.

        As the reference has it, windows of one that comes begin after all rows so far, even where partials at
        hand would answer earlier ones.
        """
        for spec in self.case.specs:
            if spec.until_batch == batch and spec.from_batch < batch:
                self.pipeline.remove(spec.name)
            if spec.from_batch == batch and spec.lives_in(batch):
                self.pipeline.add(self.query(spec), warm=False)


def replay(
    spark: SparkSession,
    case: Case,
    *,
    slicing: Slicing = Slicing.PAIRED,
    syntax: WindowSyntax = WindowSyntax.BRACKET,
    flush: bool = True,
) -> Replayed:
    """Push the case's batches through a pipeline."""
    player, reports = Player(spark, case, slicing=slicing, syntax=syntax), []
    for number, table in enumerate(case.batch_tables()):
        player.before(number)
        reports.append(player.pipeline.process(spark.createDataFrame(table)))
    if flush:
        player.before(len(case.batches))
        reports.append(player.pipeline.finish(spark))
    return Replayed(reports, player.pipeline.clock)
