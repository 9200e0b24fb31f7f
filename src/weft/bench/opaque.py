"""The bench of predicates that are no thresholds: what 1 to 256 of them cost, in units of one ordinary query.

Weft, with a checkpoint on disk and its results in Parquet, and one ordinary Spark query with one such
predicate, with Spark's own checkpoint, run by turns over the same files with the same settings. Each is
warmed up by as many rounds, and a figure is the median of all counted ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Annotated, ClassVar

import pyspark
from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.against_spark import WeftTurns
from weft.bench.bench import Bench
from weft.bench.equality import Check
from weft.bench.measure import Timed
from weft.bench.opaque_queries import SIZES, Case, make_readings, opaque_queries
from weft.bench.options import Checked, Counts, OneSeed, Repeats
from weft.bench.records import Record
from weft.bench.runs import Input, run_query
from weft.spark.session.local import DEFAULT_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Record):
    """What was measured for one number of predicates."""

    computed: ClassVar[str] = "ratio ratio_by_pairs"
    case: str
    predicates: int
    weft_s: tuple[float, ...]
    one_query_s: tuple[float, ...]
    """The ordinary query that was run right after each run of Weft."""
    relations: int
    groups: int
    """Of the last batch."""
    stages_s: dict[str, float]
    compared_queries: int
    differences: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The median of Weft's runs over the median of the ordinary query's."""
        return median(self.weft_s) / median(self.one_query_s)

    @property
    def ratio_by_pairs(self) -> float:
        """The median of each run of Weft over the ordinary query right after it."""
        return median(weft / plain for weft, plain in zip(self.weft_s, self.one_query_s, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueResult(report.Result):
    """All that was measured of a case."""

    case: str
    rows: int
    batches: int
    cores: int
    pyspark: str
    sizes: tuple[Size, ...]

    @property
    def rows_equal(self) -> bool | None:
        """Whether all rows that were compared are plain Spark's."""
        return not any(size.differences for size in self.sizes)

    def show(self, console: Console) -> None:
        """Print a case as a table."""
        columns = {
            "predicates": "{0.predicates:,}", "Weft": "{1}", "one ordinary query": "{2}",
            "ratio": "{0.ratio:.2f}", "by pairs": "{0.ratio_by_pairs:.2f}", "relations": "{0.relations:,}",
            "groups": "{0.groups:,}", "rows": "{3}",
        }  # fmt: skip
        rows = []
        for size in self.sizes:
            verdict = [*size.differences, "equal" if size.compared_queries else "not compared"][0]
            rows.append((size, _spread(size.weft_s), _spread(size.one_query_s), verdict))
        case = Case(self.case)
        title = f"{case.described}, no two windows alike; {self.rows:,} rows, {self.cores} cores"
        console.print(report.make_table(title, columns, rows))
        count, most = case.bar
        console.print(f"bar: {count} predicates at most {most} × one ordinary query")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaquePredicates(Bench[OpaqueResult]):
    """Predicates that are no thresholds (LIKE, comparisons of columns, many columns), against ordinary Spark.

    Example: weft bench predicates --case like -n 16 -n 256
    """

    offers = "cases predicates stream_rows repeats check seed json data cores"
    cases: Annotated[
        tuple[Case, ...], Option("--case", help="Which predicates; may be repeated.")
    ] = tuple(Case)  # fmt: skip
    predicates: Annotated[
        Counts, Option("--predicates", "-n", help="How many; may be repeated.", min=1)
    ] = SIZES  # fmt: skip
    stream_rows: Annotated[int, Option("--rows", help="Rows in the hour.", min=1000)] = 1_000_000
    repeats: Repeats = 3
    check: Checked = Check.SAMPLE
    seed: OneSeed = 1
    memory: str = DEFAULT_MEMORY

    def measure(self) -> Iterator[OpaqueResult]:
        """Measure each number of predicates of each case."""
        spark = self.session()
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.shuffle.partitions", cores)
        rows, files = self.stream_rows, self.batches * cores
        dataset = make_readings(spark, self.data, rows=rows, files=files, seed=self.seed)
        given = Input(spark=spark, dataset=dataset, files_per_trigger=cores)
        for case in self.cases:
            sizes = tuple(self._measure(given, case, count) for count in sorted(self.predicates))
            yield OpaqueResult(
                case=case, rows=rows, batches=self.batches, cores=cores, pyspark=pyspark.__version__,
                sizes=sizes,
            )  # fmt: skip

    def _measure(self, given: Input, case: Case, count: int) -> Size:
        queries = opaque_queries(case, count, seed=self.seed)
        with given.folder() as scratch:
            weft = WeftTurns(given, queries, self, scratch)
            turns: list[tuple[str, Timed]] = [
                (f"{count:,} predicates", weft.run),
                ("one ordinary query", partial(run_query, given, queries[0])),
            ]
            of_weft, ordinary = self.alternate(turns).values()
            compared = weft.compare()
        return Size(
            case=case, predicates=count, weft_s=of_weft.runs, one_query_s=ordinary.runs,
            relations=weft.last.relations, groups=weft.last.groups, stages_s=weft.last.stages,
            compared_queries=compared.queries, differences=compared.differences,
        )  # fmt: skip


def _spread(runs: Sequence[float]) -> str:
    return f"{median(runs):.2f} s ({min(runs):.2f}–{max(runs):.2f})"
