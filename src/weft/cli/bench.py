"""`weft bench`: what sharing costs and saves, as ratios taken within one run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check
from weft.bench.fragments import run_fragments
from weft.bench.memory import run_memory
from weft.bench.slices import run_slices
from weft.bench.windows import run_windows
from weft.bench.workloads import PAPER_SIZES, SCOTTY_SIZES, Predicates

app = typer.Typer(
    help="Measure Weft against ordinary Spark. Example: weft bench slices --rows 4000000",
    no_args_is_help=True,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the figures there.", show_default=False)]
Plot = Annotated[Path | None, typer.Option(help="Write a picture there (PNG).", show_default=False)]
Data = Annotated[Path, typer.Option(help="Where generated data is kept.")]
Cores = Annotated[int | None, typer.Option(help="Cores of the local Spark.", min=1, show_default="all")]
Repeats = Annotated[int, typer.Option(help="Rounds, alternating between what is compared.", min=1)]
Sizes = Annotated[
    list[int], typer.Option("--queries", "-n", help="How many queries; may be repeated.", min=1)
]
Rows = Annotated[int, typer.Option(help="Trades in the hour.", min=1000)]
Measured = Annotated[int, typer.Option(help="Ordinary Spark queries that are measured.", min=1)]
Checked = Annotated[Check, typer.Option(help="Which queries' rows are compared with Spark's.")]


@app.command()
def slices(
    queries: Sizes = [PAPER_SIZES[-1]],  # noqa: B006
    rows: Rows = 4_000_000,
    measured: Measured = 5,
    repeats: Repeats = 3,
    check: Checked = Check.ALL,
    json: Json = None,
    plot: Plot = Path("bench-results/slices.png"),
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Many windows over one hour of trades (the paper's workload A), against ordinary Spark.

    Example: weft bench slices -n 16 -n 256 --json slices.json
    """
    results = run_slices(
        console=Console(), queries=queries, rows=rows, measured=measured, repeats=repeats, check=check,
        json=json, plot=plot, data=data, cores=cores,
    )  # fmt: skip
    if any(result.figures.rows_equal is False for result in results):
        raise typer.Exit(1)


@app.command()
def fragments(
    queries: Sizes = [PAPER_SIZES[-1]],  # noqa: B006
    rows: Rows = 4_000_000,
    measured: Measured = 5,
    repeats: Repeats = 3,
    check: Checked = Check.ALL,
    json: Json = None,
    plot: Plot = Path("bench-results/fragments.png"),
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Many predicates in the same windows (the paper's workload B), against ordinary Spark.

    Example: weft bench fragments -n 16 -n 256
    """
    results = run_fragments(
        console=Console(), queries=queries, rows=rows, measured=measured, repeats=repeats, check=check,
        json=json, plot=plot, data=data, cores=cores,
    )  # fmt: skip
    if any(result.figures.rows_equal is False for result in results):
        raise typer.Exit(1)


@app.command()
def shards(
    low: Annotated[
        bool,
        typer.Option("--low/--regular", help="No predicate and no window twice, or √n of each."),
    ] = False,
    queries: Sizes = [PAPER_SIZES[-1]],  # noqa: B006
    rows: Rows = 4_000_000,
    measured: Measured = 5,
    repeats: Repeats = 3,
    check: Checked = Check.ALL,
    json: Json = None,
    plot: Plot = Path("bench-results/shards.png"),
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Many predicates and many windows (the paper's workload C), against ordinary Spark.

    Example: weft bench shards --low -n 256 -n 4096
    """
    workload = Predicates.LOW if low else Predicates.REGULAR
    try:
        for size in queries:
            workload.check(size)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--queries") from error
    results = run_fragments(
        console=Console(), workload=workload, queries=queries, rows=rows, measured=measured, repeats=repeats,
        check=check, json=json, plot=plot, data=data, cores=cores,
    )  # fmt: skip
    if any(result.figures.rows_equal is False for result in results):
        raise typer.Exit(1)


@app.command()
def windows(
    queries: Annotated[
        list[int], typer.Option("--queries", "-n", help="How many windows; may be repeated.")
    ] = list(SCOTTY_SIZES),  # noqa: B006
    rows: Annotated[int, typer.Option(help="Rows in all.", min=1000)] = 8_000_000,
    repeats: Repeats = 3,
    json: Json = None,
    plot: Plot = Path("bench-results/windows.png"),
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Tumbling windows of random length (Scotty's workload): throughput from 1 to 1,000 windows.

    Example: weft bench windows -n 1 -n 1000
    """
    run_windows(
        console=Console(),
        queries=queries,
        rows=rows,
        repeats=repeats,
        json=json,
        plot=plot,
        data=data,
        cores=cores,
    )


@app.command()
def memory(
    rows: Annotated[int, typer.Option(help="Rows of the large run.", min=1000)] = 10_000_000,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Ten million rows in 2 GB of heap, and state that does not grow with the input.

    Example: weft bench memory --rows 10000000
    """
    run_memory(console=Console(), rows=rows, json=json, data=data, cores=cores)
