"""What `weft bench dashboards` found, as tables and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.table import Table

from weft.bench import report
from weft.bench.dashboards_figures import Contender, Figures, Mode

_SHOWN = 20
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
class DashboardsResult(Figures):
    """What was measured for one number of queries in one mode, and how that is shown."""

    def show(self, console: Console) -> None:
        """Print seconds, stages, bars and whether all rows are equal."""
        console.print(_seconds(self))
        console.print(_stages(self))
        for bar in self.bars:
            sign = "≥" if bar.at_least else "≤"
            verdict = "[green]met[/green]" if bar.met else "[red]not met[/red]"
            console.print(f"{bar.name}: {bar.value:,.2f} (bar {sign} {bar.limit:,.2f}: {verdict})")
        console.print(_verdict(self))

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw the seconds of each contender over the number of queries, a panel for each mode."""
        modes = [mode for mode in Mode if any(one.mode is mode for one in results)]
        figure = report.new_figure(6.5 * len(modes), 5.2)
        panels = figure.subplots(1, len(modes), squeeze=False)[0]
        for axes, mode in zip(panels, modes, strict=True):
            _draw(axes, mode, [one for one in results if one.mode is mode])
        return figure


def _seconds(figures: Figures) -> Table:
    title = (
        f"{figures.mode}: {figures.queries} queries ({figures.computing} with HAVING or arithmetic) over "
        f"{figures.rows:,} flights in {figures.batches} batches"
    )
    unit = "ms a batch" if figures.mode is Mode.LIVE else "seconds"
    columns = f"|{unit}|spread|first|Weft/this|by pairs|results"
    rows = [_row(figures, name) for name in figures.runs_s]
    return report.make_table(title, columns, rows, caption=_caption(figures), no_wrap=True)


def _row(figures: Figures, name: Contender) -> tuple[str, ...]:
    """Return what a contender took, in its first run, too, before Java had compiled anything."""

    def time(seconds: float) -> str:
        return f"{1000 * seconds:,.0f}" if figures.mode is Mode.LIVE else f"{seconds:,.2f}"

    ratios = [taken(Contender.WEFT, name) for taken in (figures.ratio, figures.ratio_by_pairs)]
    warmups, results = figures.warmup_s.get(name), figures.results.get(name)
    return (
        name,
        time(figures.seconds(name)),
        f"±{50 * figures.spread(name):.0f} %",
        time(warmups[0]) if warmups else "",
        *("" if name is Contender.WEFT or ratio is None else f"{ratio:,.2f}" for ratio in ratios),
        "" if results is None else f"{results:,}",
    )


def _caption(figures: Figures) -> str:
    rounds, warmups = len(figures.runs_s[Contender.WEFT]), len(figures.warmup_s[Contender.WEFT])
    measured = (
        f"Medians over {rounds} alternating rounds, after {warmups} that warm up; {figures.cores} cores. "
        "Everyone reads the same files and writes Parquet; starting Spark is nobody's time. "
    )
    if figures.mode is Mode.LIVE:
        return measured + (
            "The median batch of each run, as Spark times it; Weft commits to a checkpoint on disk, as "
            f"does the ordinary query (the median of {figures.streaming_sample})."
        )
    return measured + (
        f"Weft commits to a checkpoint on disk; its time runs from the text of queries to the last result. "
        f"Of ordinary queries {figures.batch_sample} ran in batch and {figures.streaming_sample} as streams, "
        "scaled by the mean."
    )


def _stages(figures: Figures) -> Table:
    names = list(dict.fromkeys(stage for stages in figures.stages_s.values() for stage in stages))
    rows = [
        (contender, *(f"{stages.get(name, 0.0):,.2f}" for name in names))
        for contender, stages in figures.stages_s.items()
    ]
    return report.make_table("seconds by stage, the whole run", "|".join(["", *names]), rows)


def _verdict(figures: Figures) -> str:
    results = figures.results[Contender.WEFT]
    if not figures.differences:
        rate = f"; {figures.results_per_s():,.0f} results/s" if figures.mode is Mode.REPLAY else ""
        return f"rows equal DuckDB's: {results:,} rows of {figures.queries} queries compared{rate}"
    shown = "\n".join(figures.differences[:_SHOWN])
    return f"[red]rows of {len(figures.differences)} queries differ from DuckDB's[/red]:\n{shown}"


def _draw(axes: report.Axes, mode: Mode, results: Sequence[Figures]) -> None:
    for contender, (color, line) in _STYLES.items():
        points = [(one.queries, one.seconds(contender)) for one in results if contender in one.runs_s]
        if points:
            report.draw_line(axes, points, line, color=color, markersize=3, label=contender)
    report.put_sizes(axes, (one.queries for one in results), base=10)
    axes.set_yscale("log")
    axes.minorticks_off()
    unit = "seconds for all batches" if mode is Mode.REPLAY else "median seconds of a batch"
    axes.set(title=f"{mode}: {results[0].rows:,} flights", xlabel="queries", ylabel=unit)
    report.put_legend(axes)
