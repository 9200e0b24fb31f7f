"""Run after run of a loop on one checkpoint, without Spark."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.pipeline_samples import MS, Batch, Row, asked, plain_pipeline, process, results

from weft.durability.checkpoint import Checkpoint
from weft.durability.ledger import Ledger
from weft.durability.registry import Registry
from weft.durability.rejoining import Bind, rejoin
from weft.state.clock import ALWAYS, RowCounts
from weft.state.report import BatchReport
from weft.storage import LocalFolder
from weft.stream.loop import Loop
from weft.stream.pipeline import Pipeline, begin

ALL = ("vol > 0", lambda row: row.vol is not None and row.vol > 0)
LONG = asked("long", ALL, (60, 5))
SHORT = asked("short", ALL, (20, 5))
EMPTY = asked("short", ALL, (20, 5), suffix="EMIT EMPTY")


def rows(*times: int) -> list[Row]:
    """Return rows of some milliseconds."""
    return [Row(time * MS, "a", 1, 1) for time in times]


class Kept:
    """Reports that were committed, as sinks see them."""

    def __init__(self) -> None:
        self.name, self.done = "kept", -1
        self.reports: list[BatchReport] = []

    def resume(self, after: int, *, origin: str = "") -> None:
        self.done = after

    def deliver(self, commit: int, given: Any) -> None:
        self.reports.append(BatchReport(counts=RowCounts(), results=given))

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Runs:
    """Run after run on one checkpoint, without Spark."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: LocalFolder) -> None:
        self._patch, self.folder = patch, folder
        self.sink = Kept()
        self.pipeline: Pipeline
        self.ledger: Ledger
        self.loop: Loop
        self.notices: list[str] = []

    def start(
        self,
        *workload: Any,
        live: Sequence[Any] = (),
        durable: bool = True,
        bind: Bind | None = None,
        **options: Any,
    ) -> None:
        """Begin a run with the queries of a workload; those that were added live are known by name."""
        checkpoint = Checkpoint(self.folder) if durable else None
        recovered = None if checkpoint is None else checkpoint.recover()
        self.pipeline = plain_pipeline(self._patch, **options)
        registry = Registry() if recovered is None else recovered.registry
        known = {one.name: one.logical() for one in live}
        watermark = ALWAYS if recovered is None else recovered.last.clock.reached
        found = rejoin(
            [one.logical() for one in workload], registry, bind or (lambda name, _: known[name]),
            watermark=watermark,
        )  # fmt: skip
        self.notices = [notice.words for notice in found.notices]
        begin(self.pipeline, found, registry, recovered)
        self.ledger = Ledger(
            registry=registry, checkpoint=checkpoint, recovered=recovered, inline=[self.sink]
        )
        frame: Any = SimpleNamespace(sparkSession=None)
        self.loop = Loop(self.pipeline, frame, self.ledger)

    def batch(self, *times: int) -> None:
        """Process and commit a batch."""
        report = process(self.pipeline, rows(*times))
        self.ledger.commit(self.pipeline.outcome(report), batch=self.ledger.batch + 1)

    def offer(self, *times: int) -> None:
        """Have the loop handle a batch, as Spark does."""
        self.offer_rows(rows(*times))

    def offer_rows(self, given: Sequence[Row]) -> None:
        """Have the loop handle a batch of some rows."""
        batch: Any = Batch(given)
        self.loop._handle(batch, self.ledger.batch + 1)

    def given(self, name: str) -> list[int]:
        """Return the ends, in milliseconds, of all windows that a query gave in any run."""
        return [end // MS for (end, _), _ in results(self.sink.reports, name)]
