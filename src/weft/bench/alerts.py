"""The bench of alerts that differ in one constant of HAVING: their finals against those of one such alert."""

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from weft.bench.dataset import Dataset
from weft.bench.same_rows import difference
from weft.bench.trades import make_trades
from weft.engine import Engine
from weft.spark.session.local import local_session
from weft.state.report import BatchReport

SHAPES = ("count(*) > {}", "count(*) >= 10 AND sum(price) > 100 * {}", "count(*) > 1000 * {}")
"""What alerts ask for, with their threshold; alone, and beside a condition that all have in common.

Those of the last never fire: it tells what alerts cost, their results aside.
"""
SIZES = (1, 30, 300)
"""How many alerts there are unless told."""
_WARM = 2
"""Batches of a run that do not count: the first is planned and compiled."""
_CHECKED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsSize:
    """What finals of some alerts took."""

    having: str
    alerts: int
    finals_ms: float
    """The median over all batches of all rounds."""
    least_ms: float
    most_ms: float
    ratio: float
    """To the first number of alerts of the same HAVING, which is one unless told."""
    results: int
    """In one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsResult:
    """Finals by number of alerts, and whether rows are plain Spark's."""

    rows_per_batch: int
    batches: int
    repeats: int
    seed: int
    sizes: tuple[AlertsSize, ...]
    differences: tuple[str, ...]


def alert(having: str, number: int, alerts: int) -> str:
    """Return the text of an alert; few windows of any symbol pass its threshold, whatever its number."""
    condition = having.format(1_000 + 1_000 * number // alerts)
    return (
        "SELECT symbol, count(*) AS trades, 100 * avg(price) / max(price) AS percent FROM trades "
        f"[RANGE '10 min' SLIDE '1 min'] GROUP BY symbol HAVING {condition}"
    )


def run_alerts(
    *,
    console: Console,
    alerts: Sequence[int] = SIZES,
    rows_per_batch: int = 10_000,
    batches: int = 20,
    repeats: int = 3,
    seed: int = 1,
    json: Path | None = None,
    data: Path,
    cores: int | None = None,
) -> AlertsResult:
    """Run each number of alerts by turns, and print what finals took."""
    spark = local_session(cores=cores)
    dataset = make_trades(spark, data, rows=rows_per_batch * batches, files=batches, seed=seed)
    cases = [(having, size) for having in SHAPES for size in alerts]
    finals: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    results: dict[tuple[str, int], int] = {}
    differences: list[str] = []
    with console.status("") as status:
        for turn in range(repeats):
            for having, size in cases:
                status.update(f"round {turn + 1} of {repeats}: {size:,} alerts, {having.format('t')}")
                engine, reports = _run(spark, dataset, having, size)
                measured = [report.seconds["finals"] for report in reports if "finals" in report.seconds]
                finals[having, size] += measured[_WARM:]
                results[having, size] = sum(report.windows for report in reports)
                if turn == 0:
                    differences += _differences(engine, size)
    sizes = tuple(
        AlertsSize(
            having=having.format("t"), alerts=size, finals_ms=1000 * median(seconds),
            least_ms=1000 * min(seconds), most_ms=1000 * max(seconds),
            ratio=median(seconds) / median(finals[having, alerts[0]]), results=results[having, size],
        )
        for (having, size), seconds in finals.items()
    )  # fmt: skip
    result = AlertsResult(
        rows_per_batch=rows_per_batch, batches=batches, repeats=repeats, seed=seed, sizes=sizes,
        differences=tuple(differences),
    )  # fmt: skip
    show_alerts(result, console)
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(json_module.dumps(asdict(result), indent=2) + "\n")
    return result


def _run(spark: SparkSession, dataset: Dataset, having: str, size: int) -> tuple[Engine, list[BatchReport]]:
    engine, reports = Engine(spark), list[BatchReport]()
    engine.load(dataset.statement(1))
    for number in range(size):
        engine.add(alert(having, number, size), name=f"alert{number}")
    engine.run(on_batch=lambda _, report: reports.append(report))
    return engine, reports


def _differences(engine: Engine, size: int) -> list[str]:
    names = [f"alert{number}" for number in range(0, size, max(1, size // _CHECKED))]
    compared = (difference(name, engine.results(name), engine.run_plain(name)) for name in names)
    return [one for one in compared if one is not None]


def show_alerts(result: AlertsResult, console: Console) -> None:
    """Print finals by number of alerts."""
    table = Table(title=f"batches of {result.rows_per_batch:,} rows", title_justify="left")
    table.add_column("HAVING")
    for name in ("alerts", "finals a batch, ms", "least", "most", "ratio to one", "results"):
        table.add_column(name, justify="right")
    for size in result.sizes:
        table.add_row(
            size.having, f"{size.alerts:,}", f"{size.finals_ms:.2f}", f"{size.least_ms:.2f}",
            f"{size.most_ms:.2f}", f"{size.ratio:.2f}", f"{size.results:,}",
        )  # fmt: skip
    console.print(table)
    console.print(f"medians over {result.repeats} rounds of {result.batches - _WARM} batches each")
    told = "\n".join(["[red]rows differ[/red]", *result.differences[:5]])
    console.print(told if result.differences else "rows equal plain Spark's")
