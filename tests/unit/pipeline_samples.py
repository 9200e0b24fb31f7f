"""A pipeline whose job is plain Python, rows for it, and what its queries should answer."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.aggregate_samples import lifted
from tests.unit.language_samples import CATALOG, TRADES

from weft.expression import Call, Expression
from weft.optimizer.plan import SharedPlan
from weft.optimizer.slices import slice_starts
from weft.optimizer.statistics import Sample
from weft.predicates import All, Formula, Test, Values
from weft.query import bind, parse_select
from weft.query.logical import LogicalQuery
from weft.spark.job.failures import Failures
from weft.spark.job.fragment_coder import FragmentCoder
from weft.spark.job.job import in_job_order
from weft.spark.job.points import attributes_of
from weft.spark.job.verdicts import Bounds
from weft.state.clock import RowCounts, Seen
from weft.state.report import BatchReport
from weft.state.running_query import RunningQuery
from weft.state.store import Block
from weft.stream import pipeline as pipeline_module
from weft.stream import plan_in_effect as plan_module
from weft.stream.pipeline import Pipeline

MS = 1000


class Row(NamedTuple):
    """A trade; its time in microseconds."""

    time: int
    symbol: str
    vol: int | None
    n: int | None


Matches = Callable[[Row], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A query as text and in plain Python."""

    name: str
    text: str
    condition: str
    matches: Matches
    range_ms: int
    slide_ms: int
    keyed: bool
    aggregate: str

    def logical(self) -> LogicalQuery:
        """Return it bound."""
        return bind(parse_select(self.text, name=self.name), CATALOG)


def asked(
    name: str, where: tuple[str, Matches], window: tuple[int, int], *, keyed: bool = False,
    aggregate: str = "sum(vol)", suffix: str = "",
) -> Asked:  # fmt: skip
    """Return a query over trades."""
    condition, matches = where
    text = (
        f"SELECT {'symbol, ' if keyed else ''}{aggregate} AS v FROM trades "
        f"[RANGE '{window[0]} ms' SLIDE '{window[1]} ms'] WHERE {condition} "
        f"{'GROUP BY symbol ' if keyed else ''}{suffix}"
    )
    return Asked(
        name=name, text=text, condition=condition, matches=matches, range_ms=window[0], slide_ms=window[1],
        keyed=keyed, aggregate=aggregate,
    )  # fmt: skip


def expected(one: Asked, live: RunningQuery, rows: Sequence[Row], watermark: int | None) -> dict[Any, Any]:
    """Return what a query answers by a watermark (None: at the end of input), from its definition."""
    found: dict[Any, list[Row]] = defaultdict(list)
    slide, length = one.slide_ms * MS, one.range_ms * MS
    for row in rows:
        if not one.matches(row):
            continue
        end = row.time - row.time % slide + slide
        while end - length <= row.time:
            due = watermark is None or end <= watermark
            inside = end > live.answered_through
            if due and inside and (live.until is None or end <= live.until):
                found[end, row.symbol if one.keyed else None].append(row)
            end += slide
    return {key: _value(one.aggregate, several) for key, several in found.items()}


def _value(aggregate: str, rows: Sequence[Row]) -> int | None:
    present = [row.vol for row in rows if row.vol is not None]
    if aggregate == "count(*)":
        return len(rows)
    if not present:
        return None
    return sum(present) if aggregate == "sum(vol)" else max(present)


def results(reports: Sequence[BatchReport], name: str) -> list[tuple[Any, Any]]:
    """Return a query's results as pairs of (window end, key) and value, in the order of reports."""
    found = []
    for report in reports:
        for row in report.results[name].to_pylist() if name in report.results else ():
            end = int(row["window_end"].timestamp() * 1_000_000)
            found.append(((end, row.get("symbol")), row["v"]))
    return found


# The job.


def satisfies(row: Row, formula: Formula) -> bool:
    """Say whether a row satisfies a canonical predicate."""
    if isinstance(formula, Test):
        return _among(_evaluated(formula.expression, row), formula.values)
    several = [satisfies(row, part) for part in formula.parts]
    return all(several) if isinstance(formula, All) else any(several)


def _evaluated(expression: Expression, row: Row) -> Any:
    # Casts of whole numbers change nothing here.
    return (
        _evaluated(expression.args[0], row) if isinstance(expression, Call) else getattr(row, str(expression))
    )


def _among(value: Any, values: Values) -> bool:
    if value is None:
        return values.null
    passed = [value > cut.value or (value == cut.value and not cut.after) for cut in values.cuts]
    return bool(values.lowest ^ (sum(passed) % 2 == 1))


class Batch(NamedTuple):
    """Rows that stand for a DataFrame."""

    rows: Sequence[Row]
    sparkSession: None = None


class PlainJob:
    """Aggregate rows as a Spark job would."""

    made = 0

    def __init__(
        self, plan: SharedPlan, stream: object, tables: object, functions: object, *learnt: object
    ) -> None:
        PlainJob.made += 1
        self.relations = in_job_order(plan.roots)
        self.index_of = {relation.id: index for index, relation in enumerate(self.relations)}
        self.edges = [relation.edges(plan.slicing) for relation in self.relations]
        no_tables = SimpleNamespace(translator=None, table_of=lambda relation, expression: None)
        self.fragments = FragmentCoder(self.relations, no_tables)  # type: ignore[arg-type]
        self.failures = Failures([], None)  # type: ignore[arg-type]

    def run(self, batch: Batch, bounds: Bounds) -> list[Row]:
        """Return the rows that are not late."""
        return [row for row in batch.rows if bounds.watermark is None or row.time >= bounds.watermark]

    def copies(self, row: Row, index: int) -> Iterator[int]:
        """Yield the fragments that a row is aggregated into."""
        relation = self.relations[index]
        bits = [satisfies(row, one) for one in relation.predicates]
        if not relation.shared:
            yield from np.flatnonzero(bits).tolist()
        elif any(bits):
            told = self.fragments.numbered[index].signatures.bits[:, : len(bits)]
            (found,) = np.flatnonzero((told == bits).all(axis=1))
            yield int(found)


class PlainDecode:
    """Read what a plain job gave."""

    @staticmethod
    def seen(job: PlainJob, rows: list[Row]) -> Seen:
        """Return the span of the rows."""
        times = [row.time for row in rows]
        counts = RowCounts(good=len(rows))
        return Seen(counts=counts, oldest=min(times, default=None), newest=max(times, default=None))

    @classmethod
    def blocks(cls, active: Any, rows: list[Row]) -> dict[Any, Block]:
        """Return the blocks of all relations."""
        return {
            (root.grouping, root.id): cls.block(active.job, index, rows)
            for index, root in enumerate(active.job.relations)
        }

    @staticmethod
    def block(job: PlainJob, index: int, rows: list[Row]) -> Block:
        """Return the block of a relation."""
        relation, groups = job.relations[index], defaultdict(list)
        times = np.array([row.time for row in rows], dtype=np.int64)
        for row, start in zip(rows, slice_starts(times, job.edges[index]).tolist(), strict=True):
            for fragment in job.copies(row, index):
                groups[start, row.symbol if relation.keys else None, fragment].append(row)
        keys = pa.table({"key": pa.array([key for _, key, _ in groups], pa.string())})
        return Block(
            starts=np.array([start for start, _, _ in groups], dtype=np.int64),
            keys=keys if relation.keys else keys.select([]),
            fragments=np.array([fragment for _, _, fragment in groups], dtype=np.int32),
            signatures=job.fragments.numbered[index].signatures,
            partials={
                one: lifted(
                    one,
                    [[True if not one.arguments else row.vol for row in some] for some in groups.values()],
                )
                for one in relation.primitives
            },
            rows=len(rows),
        )

    @staticmethod
    def failures(job: PlainJob, rows: list[Row]) -> dict[str, int]:
        """Return none."""
        return {}

    @staticmethod
    def fragmentations(*_: object) -> list[Any]:
        """Tell nothing."""
        return []

    @staticmethod
    def unshared_operations(*_: object) -> int:
        """Tell nothing."""
        return 0


def _sampled(batch: Batch, apart: SharedPlan, *_: object) -> Sample:
    found = attributes_of(apart.relations)
    positions = {}
    for place, attribute in found.items():
        values = [_evaluated(attribute.expression, row) for row in batch.rows]
        positions[place] = np.array([_position(attribute.points, one) for one in values], dtype=np.int64)
    return Sample(rows=len(batch.rows), attributes=found, positions=positions)


def _position(points: Sequence[Any], value: Any) -> int:
    if value is None:
        return 2 * len(points) + 1
    below: int = sum(point < value for point in points)
    return 2 * below + (value in points)


def plain_pipeline(patch: pytest.MonkeyPatch, *, delay_ms: int = 0, **options: Any) -> Pipeline:
    """Return a pipeline that needs no Spark."""
    patch.setattr(plan_module, "BatchJob", PlainJob)
    patch.setattr(pipeline_module, "decode", PlainDecode)
    patch.setattr(plan_module, "take_sample", _sampled)
    patch.setattr(pipeline_module, "utc", lambda session: nullcontext())
    return Pipeline(replace(TRADES, delay_ms=delay_ms, skew_ms=None), **options)


def process(pipeline: Pipeline, rows: Sequence[Row]) -> BatchReport:
    """Give a pipeline a batch."""
    batch: Any = Batch(rows)
    return pipeline.process(batch)
