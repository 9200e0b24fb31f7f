"""`weft bench dashboards`: everyday queries over a year of flights."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weft.bench.dashboards import Modes, Plan, run_dashboards
from weft.bench.dashboards_queries import DEFAULT_WORKLOAD
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.flights import YEAR_ROWS

_PICTURE = Path("bench-results") / "dashboards.png"


def dashboards(
    queries: Annotated[
        list[int], typer.Option("--queries", "-n", help="How many of the queries; may be repeated.", min=1)
    ] = [60],  # noqa: B006
    mode: Annotated[
        Modes, typer.Option(help="The year in few batches, small batches, or both.")
    ] = Modes.BOTH,
    rows: Annotated[int, typer.Option(help="The first flights of the year.", min=1000)] = YEAR_ROWS,
    batches: Annotated[int, typer.Option(help="Micro-batches of a replay.", min=1)] = 4,
    live_rows: Annotated[int, typer.Option(help="Flights in a live batch.", min=1)] = 1000,
    live_batches: Annotated[int, typer.Option(help="Live batches.", min=1)] = 40,
    measured: Annotated[
        int, typer.Option(help="Ordinary Spark batch queries that are measured; 0: none.", min=0)
    ] = 60,
    streaming: Annotated[
        int, typer.Option(help="Ordinary streaming queries that are measured; 0: none.", min=0)
    ] = 3,
    no_variants: Annotated[
        bool,
        typer.Option("--no-variants", help="Leave out Weft without a checkpoint, and without HAVING."),
    ] = False,
    repeats: Annotated[int, typer.Option(help="Rounds, alternating between what is compared.", min=1)] = 3,
    warmups: Annotated[int, typer.Option(help="Rounds before them that do not count.", min=0)] = 3,
    workload: Annotated[
        Path, typer.Option(help="The queries.", show_default="examples/flights/workload.sql")
    ] = DEFAULT_WORKLOAD,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the figures there.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture there (PNG).", show_default=str(_PICTURE))
    ] = None,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw no picture.")] = False,
    data: Annotated[Path, typer.Option(help="Where flights and, meanwhile, checkpoints are.")] = DEFAULT_DATA,
    cores: Annotated[
        int | None, typer.Option(help="Cores of the local Spark.", min=1, show_default="all")
    ] = None,
) -> None:
    """Dashboards and alerts over a year of flights, against DuckDB and ordinary Spark.

    Example: weft bench dashboards --mode replay -n 1 -n 4 -n 16 -n 60
    """
    plan = Plan(
        rows=rows, batches=batches, live_rows=live_rows, live_batches=live_batches, repeats=repeats,
        batch_queries=measured, streaming_queries=streaming, variants=not no_variants, warmups=warmups,
    )  # fmt: skip
    results = run_dashboards(
        console=Console(), queries=queries, modes=mode, plan=plan, workload=workload, json=json,
        plot=None if no_plot else plot or _PICTURE, data=data, cores=cores,
    )  # fmt: skip
    if any(result.differences for result in results):
        raise typer.Exit(1)
