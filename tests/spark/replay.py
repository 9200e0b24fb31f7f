"""Replay an oracle's case through Weft, batch by batch."""

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.oracle.cases import STREAM, TIME, Case
from tests.oracle.render import WindowSyntax
from tests.oracle.spec import Spec
from weft.optimizer.slices import Slicing
from weft.query import CreateStream, bind, parse, parse_select
from weft.query.logical import Catalog, StreamDef
from weft.runtime.clock import Clock
from weft.runtime.pipeline import BatchReport, Pipeline


class Replayed:
    """What Weft gave for a case."""

    def __init__(self, reports: list[BatchReport], clock: Clock) -> None:
        self.reports = reports
        self.clock = clock

    def results(self, name: str) -> pa.Table | list[object]:
        """Return all results of a query."""
        parts = [report.results[name] for report in self.reports if name in report.results]
        return pa.concat_tables(parts) if parts else []


def stream_of(case: Case) -> StreamDef:
    """Return the case's stream as a workload would declare it."""
    text = (
        f"CREATE STREAM {STREAM} ({case.ddl()}) USING memory EVENT TIME {TIME} "
        f"DELAY '{case.delay_ms} ms' SKEW NONE"
    )
    (statement,) = parse(text)
    assert isinstance(statement, CreateStream)
    return statement.definition


def pipeline_of(
    case: Case, *, slicing: Slicing = Slicing.PAIRED, syntax: WindowSyntax | None = None
) -> Pipeline:
    """Return a pipeline with the case's queries."""
    stream = stream_of(case)
    pipeline = Pipeline(stream, slicing=slicing)
    for spec in case.specs:
        pipeline.add(bind(parse_select(_text(spec, syntax), name=spec.name), Catalog(streams=(stream,))))
    return pipeline


def _text(spec: Spec, syntax: WindowSyntax | None) -> str:
    return spec.sql(STREAM, TIME) if syntax is None else spec.sql(STREAM, TIME, syntax)


def replay(spark: SparkSession, case: Case, pipeline: Pipeline, *, flush: bool = True) -> Replayed:
    """Push the case's batches through a pipeline."""
    reports = [pipeline.process(spark.createDataFrame(table)) for table in case.tables()]
    if flush:
        reports.append(pipeline.finish(spark))
    return Replayed(reports, pipeline.clock)
