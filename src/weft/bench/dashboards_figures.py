"""What `weft bench dashboards` found, the bars that it is held against, and how it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from typing import ClassVar, Self

from rich.console import Console
from rich.table import Table

from weft.bench import report
from weft.bench.bench import PicturedResult
from weft.bench.records import Record, Seconds


class Mode(StrEnum):
    """How the stream is taken."""

    REPLAY = "replay"
    LIVE = "live"


class Contender(StrEnum):
    """Who takes part."""

    SCAN = "bare scan"
    DUCKDB = "DuckDB, one by one"
    WEFT = "Weft"
    NO_CHECKPOINT = "Weft, no checkpoint"
    PLAIN = "Weft, no HAVING or arithmetic"
    KEEPING = "Weft, HAVING keeps all rows"
    SPARK_BATCH = "Spark batch, one by one"
    SPARK_STREAM = "Spark streaming, one by one"
    ONE_STREAM = "one Spark streaming query"


_STYLES = {
    Contender.WEFT: (report.BLUE, "-"),
    Contender.NO_CHECKPOINT: (report.BLUE, "--"),
    Contender.PLAIN: (report.BLUE, ":"),
    Contender.KEEPING: (report.BLUE, "-."),
    Contender.DUCKDB: (report.ORANGE, "-"),
    Contender.SPARK_BATCH: (report.RED, "-"),
    Contender.SPARK_STREAM: (report.RED, "--"),
    Contender.ONE_STREAM: (report.RED, "--"),
    Contender.SCAN: (report.GREY, ":"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar(Record):
    """A figure and its upper or lower limit."""

    computed: ClassVar[str] = "met"
    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is within the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardsResult(PicturedResult):
    """What was measured for one number of queries in one mode."""

    computed: ClassVar[str] = "bars"
    mode: Mode
    queries: int
    computing: int
    """How many have HAVING or arithmetic on aggregates."""
    rows: int
    batches: int
    runs_s: Mapping[Contender, Seconds]
    """Every run: seconds of all batches in a replay, the median batch of a live run."""
    results: Mapping[Contender, int]
    """Result rows of Weft's runs."""
    stages_s: Mapping[Contender, Mapping[str, float]]
    """Where the time of Weft's runs went; medians over counted runs."""
    batch_sample: int
    streaming_sample: int
    """How many ordinary queries ran; what all of them take is scaled by the mean."""

    def seconds(self, contender: Contender) -> float:
        """Return the median of all counted runs."""
        return self.runs_s[contender].median

    def spread(self, contender: Contender) -> float:
        """Return the distance of the slowest run from the quickest, relative to the median."""
        runs = self.runs_s[contender]
        return (runs.most - runs.least) / runs.median

    def ratio(self, one: Contender, other: Contender) -> float | None:
        """Return the ratio of two medians; None if one did not take part."""
        if one not in self.runs_s or other not in self.runs_s:
            return None
        return self.seconds(one) / self.seconds(other)

    def ratio_by_pairs(self, one: Contender, other: Contender) -> float | None:
        """Return the median of the ratios within each round."""
        if one not in self.runs_s or other not in self.runs_s:
            return None
        return self.runs_s[one].over(self.runs_s[other]).median

    def results_per_s(self, contender: Contender = Contender.WEFT) -> float:
        """Return the result rows per second of a whole replay: those that HAVING leaves."""
        return self.results[contender] / self.seconds(contender)

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The bars that apply to this number of queries."""
        weft, keeping = Contender.WEFT, Contender.KEEPING
        live_limit, duckdb_limit = {60: 2.0}.get(self.queries), {60: 3.0, 300: 1.5}.get(self.queries)
        if self.mode is Mode.LIVE:
            ratios = [("Weft's batch / one streaming query's", weft, Contender.ONE_STREAM, live_limit)]
        else:
            ratios = [
                ("Weft / DuckDB", weft, Contender.DUCKDB, duckdb_limit),
                ("Weft / Spark batch", weft, Contender.SPARK_BATCH, {60: 0.25}.get(self.queries)),
                # With equally many results: alerts that rarely fire would flatter the ratio.
                ("with / without HAVING and arithmetic", keeping, Contender.PLAIN, 1.15),
            ]
        bars = [
            Bar(name=name, value=value, limit=limit)
            for name, contender, other, limit in ratios
            if limit is not None and (value := self.ratio(contender, other)) is not None
        ]
        if self.mode is Mode.REPLAY and self.queries >= 60:
            bars += [
                Bar(name=f"results/s, {name}", value=self.results_per_s(name), limit=1e6, at_least=True)
                for name in (weft, keeping)
                if name in self.runs_s
            ]
        return tuple(bars)

    def as_json(self) -> dict[str, object]:
        """Return all fields by name, with medians, spreads and ratios."""
        others = [name for name in self.runs_s if name is not Contender.WEFT]
        rated = self.results if self.mode is Mode.REPLAY else ()
        return {
            **PicturedResult.as_json(self),
            "seconds": {name: self.seconds(name) for name in self.runs_s},
            "spread": {name: self.spread(name) for name in self.runs_s},
            "ratio_of_weft_to": {name: self.ratio(Contender.WEFT, name) for name in others},
            "ratio_by_pairs": {name: self.ratio_by_pairs(Contender.WEFT, name) for name in others},
            "results_per_s": {name: self.results_per_s(name) for name in rated},
            "versions": {name: version(name) for name in ("pyspark", "duckdb", "pyarrow")},
        }

    def show(self, console: Console) -> None:
        """Print seconds, stages, bars and whether all rows are equal."""
        console.print(_seconds(self))
        stages = list(dict.fromkeys(stage for stages in self.stages_s.values() for stage in stages))
        columns = {"": "{0}", **{stage: f"{{{number}:,.2f}}" for number, stage in enumerate(stages, 1)}}
        rows = [(name, *(taken.get(stage, 0.0) for stage in stages)) for name, taken in self.stages_s.items()]
        console.print(report.make_table("seconds by stage, the whole run", columns, rows))
        for bar in self.bars:
            sign = "≥" if bar.at_least else "≤"
            verdict = "[green]met[/green]" if bar.met else "[red]not met[/red]"
            console.print(f"{bar.name}: {bar.value:,.2f} (bar {sign} {bar.limit:,.2f}: {verdict})")
        console.print(report.equality(self.compared, "DuckDB"))
        if self.mode is Mode.REPLAY:
            console.print(f"{self.results_per_s():,.0f} results/s")

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw the seconds of each contender over the number of queries, a panel for each mode."""
        modes = [mode for mode in Mode if any(result.mode is mode for result in results)]
        figure = report.new_figure(6.5 * len(modes), 5.2)
        for axes, mode in zip(figure.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
            of_mode = [result for result in results if result.mode is mode]
            for contender, (color, line) in _STYLES.items():
                taken = [result for result in of_mode if contender in result.runs_s]
                if taken:
                    points = [(result.queries, result.seconds(contender)) for result in taken]
                    report.draw_line(axes, points, line, color=color, markersize=3, label=contender)
            unit = "seconds for all batches" if mode is Mode.REPLAY else "median seconds of a batch"
            title = f"{mode}: {of_mode[0].rows:,} flights"
            report.finish(axes, [result.queries for result in of_mode], base=10, title=title, ylabel=unit)
        return figure


def _seconds(result: DashboardsResult) -> Table:
    """Return what each contender took, in its first run, too, before Java had compiled anything."""
    live, weft = result.mode is Mode.LIVE, Contender.WEFT

    def shown(seconds: float) -> str:
        return f"{1000 * seconds:,.0f}" if live else f"{seconds:,.2f}"

    rows = []
    for name, runs in result.runs_s.items():
        results = result.results.get(name)
        ratios = [result.ratio(weft, name), result.ratio_by_pairs(weft, name)]
        rows.append(
            (
                name, shown(result.seconds(name)), 50 * result.spread(name),
                shown(runs.warmups[0]) if runs.warmups else "",
                *("" if name is weft or ratio is None else f"{ratio:,.2f}" for ratio in ratios),
                "" if results is None else f"{results:,}",
            )
        )  # fmt: skip
    columns = {
        "": "{0}", "ms a batch" if live else "seconds": "{1}", "spread": "±{2:.0f} %", "first": "{3}",
        "Weft/this": "{4}", "by pairs": "{5}", "results": "{6}",
    }  # fmt: skip
    of_weft = result.runs_s[weft]
    caption = (
        f"Medians over {len(of_weft.runs)} alternating rounds, after {len(of_weft.warmups)} that warm up; "
        f"{result.cores} cores. "
        "Everyone reads the same files and writes Parquet; starting Spark is nobody's time. "
    )
    caption += (
        "The median batch of each run, as Spark times it; Weft commits to a checkpoint on disk, as "
        f"does the ordinary query (the median of {result.streaming_sample})."
        if live
        else "Weft commits to a checkpoint on disk; its time runs from the text of queries to the last "
        f"result. Of ordinary queries {result.batch_sample} ran in batch and {result.streaming_sample} as "
        "streams, scaled by the mean."
    )
    title = (
        f"{result.mode}: {result.queries} queries ({result.computing} with HAVING or arithmetic) over "
        f"{result.rows:,} flights in {result.batches} batches"
    )
    return report.make_table(title, columns, rows, caption=caption, no_wrap=True)
