"""The bench of alerts that differ in one constant of HAVING: their finals against those of one such alert."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.bench import Bench, Result
from weft.bench.equality import NOT_COMPARED, Comparison, compare_with_plain
from weft.bench.options import Counts, OneSeed, Repeats
from weft.bench.records import Record
from weft.bench.runs import Input, WeftRun, engine_for, run_engine
from weft.bench.trades import make_trades
from weft.bench.workloads import SqlQuery
from weft.spark.session.local import DEFAULT_MEMORY

SHAPES = ("count(*) > {}", "count(*) >= 10 AND sum(price) > 100 * {}", "count(*) > 1000 * {}")
"""What alerts ask for, with their threshold; alone, and beside a condition that all have in common.

Those of the last never fire: it shows what alerts cost, their results aside.
"""
_WARM = 2
"""Batches of a run that do not count: the first is planned and compiled."""
_CHECKED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsSize(Record):
    """What finals of some alerts took."""

    having: str
    alerts: int
    finals_ms: float
    """The median over all batches of all rounds."""
    least_ms: float
    most_ms: float
    ratio: float
    """To the first number of alerts of the same HAVING, which is one by default."""
    results: int
    """In one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsResult(Result):
    """Finals by number of alerts, and whether rows are plain Spark's."""

    bench: "Alerts"
    sizes: tuple[AlertsSize, ...]

    def show(self, console: Console) -> None:
        """Print finals by number of alerts."""
        columns = {
            "<HAVING": "{0.having}", "alerts": "{0.alerts:,}", "finals a batch, ms": "{0.finals_ms:.2f}",
            "least": "{0.least_ms:.2f}", "most": "{0.most_ms:.2f}", "ratio to one": "{0.ratio:.2f}",
            "results": "{0.results:,}",
        }  # fmt: skip
        bench = self.bench
        console.print(report.make_table(f"batches of {bench.rows_per_batch:,} rows", columns, self.sizes))
        console.print(f"medians over {bench.repeats} rounds of {bench.batches - _WARM} batches each")
        console.print(report.equality(self.compared))


def alert(having: str, number: int, alerts: int) -> str:
    """Return the text of an alert; few windows of any symbol pass its threshold, whatever its number."""
    condition = having.format(1_000 + 1_000 * number // alerts)
    return (
        "SELECT symbol, count(*) AS trades, 100 * avg(price) / max(price) AS percent FROM trades "
        f"[RANGE '10 min' SLIDE '1 min'] GROUP BY symbol HAVING {condition}"
    )


class _Alerts:
    """Alerts of one shape, and what their finals took."""

    def __init__(self, given: Input, having: str, count: int) -> None:
        self._given = given
        self._queries = [
            SqlQuery(name=f"alert{number}", sql=alert(having, number, count)) for number in range(count)
        ]
        self.finals_s: list[float] = []
        self.results = 0
        self.compared = NOT_COMPARED

    def run(self) -> float:
        """Run all batches; the first time, compare some rows with plain Spark's."""
        engine, run = engine_for(self._given, self._queries), WeftRun()
        seconds = run_engine(self._given, engine, run.note, durable=False, keep=True)
        self.finals_s += [stages["finals"] for stages in run.seconds_of if "finals" in stages][_WARM:]
        self.results = run.windows
        if self.compared is NOT_COMPARED:
            chosen = self._queries[:: max(1, len(self._queries) // _CHECKED)]
            self.compared = compare_with_plain(engine, (query.name for query in chosen))
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts(Bench[AlertsResult]):
    """Alerts that differ in one constant of HAVING: their finals against those of one such alert.

    The constant stands alone, or beside a condition that all alerts have in common.

    Example: weft bench alerts -n 1 -n 300
    """

    offers = "alerts rows_per_batch batches repeats seed json data cores"
    alerts: Annotated[
        Counts, Option("--alerts", "-n", help="How many alerts; may be repeated, 1 first.", min=1)
    ] = (1, 30, 300)  # fmt: skip
    rows_per_batch: Annotated[int, Option("--rows", help="Rows of a batch.", min=100)] = 10_000
    batches: Annotated[int, Option(help="Micro-batches in a run.", min=3)] = 20
    repeats: Repeats = 3
    warmups: int = 0
    seed: OneSeed = 1
    memory: str = DEFAULT_MEMORY

    def measure(self) -> Iterator[AlertsResult]:
        """Run each number of alerts of each shape, alternating."""
        spark, rows = self.session(), self.rows_per_batch * self.batches
        dataset = make_trades(spark, self.data, rows=rows, files=self.batches, seed=self.seed)
        given = Input(spark=spark, dataset=dataset, files_per_trigger=1)
        cases = {(shape, count): _Alerts(given, shape, count) for shape in SHAPES for count in self.alerts}
        turns = [
            (f"{count:,} alerts, {shape.format('t')}", alerts.run) for (shape, count), alerts in cases.items()
        ]
        self.alternate(turns)
        sizes = tuple(
            AlertsSize(
                having=shape.format("t"), alerts=count, finals_ms=1000 * median(alerts.finals_s),
                least_ms=1000 * min(alerts.finals_s), most_ms=1000 * max(alerts.finals_s),
                ratio=median(alerts.finals_s) / median(cases[shape, self.alerts[0]].finals_s),
                results=alerts.results,
            )
            for (shape, count), alerts in cases.items()
        )  # fmt: skip
        compared = Comparison.pooled([alerts.compared for alerts in cases.values()])
        yield AlertsResult(bench=self, cores=given.cores, sizes=sizes, compared=compared)
