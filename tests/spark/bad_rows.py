"""A stream's batches, judged by the job and looked at by the quarantine, without an engine around them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from weft.optimizer.rules import leaves
from weft.optimizer.slices import Slicing
from weft.query import CreateStream, bind, parse, parse_select
from weft.query.logical import Catalog, StreamDef
from weft.spark.input.quarantine import set_aside, write_set_aside
from weft.spark.input.schema_changes import SchemaWatch
from weft.spark.input.sources import open_stream
from weft.spark.input.unread import SPARK_ERRORS, SetAsideFile, readable
from weft.spark.job.job import BatchJob
from weft.spark.job.verdicts import Bounds
from weft.spark.session.local import utc
from weft.state.clock import Clock, RowCounts
from weft.stream import decode

SECOND = 1_000_000


@dataclass(kw_only=True)
class Judged:
    """What became of one batch."""

    counts: RowCounts
    good: list[Any]
    """The values of column id in the rows that were aggregated."""
    aside: list[dict[str, Any]]
    files: Sequence[SetAsideFile] = ()
    notices: list[str] = field(default_factory=list)


def declared(spark: SparkSession, text: str, folder: Path | None = None) -> tuple[StreamDef, DataFrame]:
    """Open the stream of a CREATE STREAM statement."""
    statement = parse(text)[0]
    assert isinstance(statement, CreateStream)
    return open_stream(spark, statement.definition, folder)


class Judge:
    """Run a stream's batches, as the engine does, with a fixed bound on the future."""

    def __init__(self, stream: StreamDef, *, future: int | None = None, keep: Path | None = None) -> None:
        self.stream = stream
        self.clock = Clock()
        self.batches: list[Judged] = []
        self._future, self._keep = future, keep
        self._watch = SchemaWatch(stream, share=1.0)
        written = parse_select(
            f"SELECT id, count(*) AS n FROM {stream.name} [RANGE '10 s' SLIDE '10 s'] GROUP BY id", name="q"
        )
        plan = leaves([bind(written, Catalog(streams=(stream,)))], Slicing.PAIRED)
        self._job = BatchJob(plan, stream, {}, {})

    def run(self, frame: DataFrame) -> list[Judged]:
        """Process all that there is, and return its batches."""
        query = frame.writeStream.foreachBatch(self.process).trigger(availableNow=True).start()
        query.awaitTermination()
        return self.batches

    def process(self, batch: DataFrame, number: int) -> None:
        """Process one batch."""
        bounds = Bounds(watermark=self.clock.watermark, future=self._future)
        files: list[SetAsideFile] = []
        with utc(batch.sparkSession):
            try:
                result = self._job.run(batch, bounds)
            except SPARK_ERRORS:
                batch, files = readable(batch, self.stream)
                assert files
                result = self._job.run(batch, bounds)
        seen = decode.seen(self._job, result)
        self.clock = self.clock.after(seen, self.stream)
        rows = set_aside(batch, self.stream, bounds, files)
        if self._keep is not None:
            for kind in ("quarantine", "late"):
                stream = f"{self._keep}/{kind}/stream={self.stream.name}"
                write_set_aside(rows, stream, batch=number, kind=kind)
        key = self._job.layout.key_slots()[0].name
        numbered = self._job.fragments.numbered[0]
        groups = result.of_relation(0, numbered.first, numbered.end, [key, "rows"])
        good = [row[key] for row in groups.to_pylist() for _ in range(row["rows"])]
        lost = RowCounts(corrupt=sum(file.rows for file in files))
        notices = [*(file.notice(self.stream) for file in files), *self._watch.look(batch)]
        judged = Judged(
            counts=seen.counts + lost,
            good=sorted(good),
            aside=rows.toArrow().to_pylist(),
            files=files,
            notices=[notice.words for notice in notices],
        )
        self.batches.append(judged)
