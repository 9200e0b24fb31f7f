"""What `weft bench dashboards` found, as tables for people."""

from rich.console import Console
from rich.table import Table

from weft.bench.dashboards_figures import Contender, Figures, Mode

_SHOWN = 20


def show_dashboards(figures: Figures, console: Console) -> None:
    """Print seconds, stages, bars and whether all rows are equal."""
    console.print(_seconds(figures))
    console.print(_stages(figures))
    for bar in figures.bars:
        sign = "≥" if bar.at_least else "≤"
        verdict = "[green]met[/green]" if bar.met else "[red]not met[/red]"
        console.print(f"{bar.name}: {bar.value:,.2f} (bar {sign} {bar.limit:,.2f}: {verdict})")
    console.print(_verdict(figures))


def _seconds(figures: Figures) -> Table:
    title = (
        f"{figures.mode}: {figures.queries} queries ({figures.computing} with HAVING or arithmetic) over "
        f"{figures.rows:,} flights in {figures.batches} batches"
    )
    table = Table(title=title, title_justify="left", caption_justify="left")
    live = figures.mode is Mode.LIVE
    for name in (
        "",
        "ms a batch" if live else "seconds",
        "spread",
        "first",
        "Weft/this",
        "by pairs",
        "results",
    ):
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for name in figures.runs_s:
        ratio, pairs = (taken(Contender.WEFT, name) for taken in (figures.ratio, figures.ratio_by_pairs))
        seconds = figures.seconds(name)
        results = figures.results.get(name)
        table.add_row(
            name,
            f"{1000 * seconds:,.0f}" if live else f"{seconds:,.2f}",
            f"±{50 * figures.spread(name):.0f} %",
            _first(figures, name),
            "" if name is Contender.WEFT or ratio is None else f"{ratio:,.2f}",
            "" if name is Contender.WEFT or pairs is None else f"{pairs:,.2f}",
            "" if results is None else f"{results:,}",
        )
    table.caption = _caption(figures)
    return table


def _first(figures: Figures, name: Contender) -> str:
    """Return what the very first run took, before Java had compiled anything."""
    runs = figures.warmup_s.get(name)
    if not runs:
        return ""
    return f"{1000 * runs[0]:,.0f}" if figures.mode is Mode.LIVE else f"{runs[0]:,.2f}"


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
    table = Table(title="seconds by stage, the whole run", title_justify="left")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for contender, stages in figures.stages_s.items():
        table.add_row(contender, *(f"{stages.get(name, 0.0):,.2f}" for name in names))
    return table


def _verdict(figures: Figures) -> str:
    results = figures.results[Contender.WEFT]
    if not figures.differences:
        rate = f"; {figures.results_per_s():,.0f} results/s" if figures.mode is Mode.REPLAY else ""
        return f"rows equal DuckDB's: {results:,} rows of {figures.queries} queries compared{rate}"
    shown = "\n".join(figures.differences[:_SHOWN])
    return f"[red]rows of {len(figures.differences)} queries differ from DuckDB's[/red]:\n{shown}"
