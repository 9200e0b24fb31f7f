"""`weft bench`: what sharing costs and saves, as ratios taken within one run.

Each bench is a command in a block of its own. `@_bench` gives it the options that benches have in common.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from weft.bench.churn import run_churn
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check
from weft.bench.fragments import run_fragments
from weft.bench.memory import run_memory
from weft.bench.options import Options, row_count
from weft.bench.slices import run_slices
from weft.bench.ways import FIGURES, run_ways
from weft.bench.windows import run_windows
from weft.bench.workloads import PAPER_SIZES, SCOTTY_SIZES, Predicates
from weft.cli.bench_dashboards import dashboards
from weft.cli.bench_parts import alerts, predicates, queries, relations
from weft.optimizer.slices import Slicing

app = typer.Typer(
    help="Measure Weft against ordinary Spark. Example: weft bench slices --rows 4000000",
    no_args_is_help=True,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the figures there.", show_default=False)]
NoPlot = Annotated[bool, typer.Option("--no-plot", help="Draw no picture.")]
Data = Annotated[Path, typer.Option(help="Where generated data and, meanwhile, checkpoints are.")]
Cores = Annotated[int | None, typer.Option(help="Cores of the local Spark.", min=1, show_default="all")]
Repeats = Annotated[int, typer.Option(help="Rounds that count; all that is compared runs in each.", min=1)]
Warmups = Annotated[int, typer.Option(help="Rounds before them that do not count.", min=0)]
Sizes = Annotated[
    list[int], typer.Option("--queries", "-n", help="How many queries; may be repeated.", min=1)
]
Rows = Annotated[
    list[str], typer.Option(help="How many rows; paper: the paper's 1,138,636. May be repeated.")
]
Seeds = Annotated[list[int], typer.Option("--seed", help="Another set of queries each; may be repeated.")]
Measured = Annotated[int, typer.Option(help="Ordinary Spark queries that are measured.", min=1)]
Checked = Annotated[Check, typer.Option(help="Which queries' rows are compared with Spark's.")]
Sliced = Annotated[Slicing, typer.Option(help="How time is cut; operations are counted alike.")]
_COMMON: dict[str, tuple[object, object]] = {
    "queries": (Sizes, [PAPER_SIZES[-1]]),
    "rows": (Rows, ["4000000", "paper"]),
    "seed": (Seeds, [1]),
    "measured": (Measured, 3),
    "repeats": (Repeats, 5),
    "warmups": (Warmups, 1),
    "slicing": (Sliced, Slicing.PAIRED),
    "check": (Checked, Check.ALL),
    "json": (Json, None),
    "plot": (Path | None, None),
    "no_plot": (NoPlot, False),
    "data": (Data, DEFAULT_DATA),
    "cores": (Cores, None),
}
"""The options that benches have in common, with what each is unless given."""


def _picture(name: str) -> Path:
    return Path("bench-results") / f"{name}.png"


def _bench(
    *pictures: str, without: Sequence[str] = (), **defaults: object
) -> Callable[[Callable[..., None]], None]:
    """Make a command of a bench: a function of `Options`, and of options of its own if it has any.

    It has the common options but those that it is `without`, and other `defaults` where they are given. Its
    picture is called by the first of the names, unless it chooses another one.
    """
    shown = " or ".join(str(_picture(name)) for name in pictures)
    plot = Annotated[Path | None, typer.Option(help="Write a picture there (PNG).", show_default=shown)]
    options = {**_COMMON, "plot": (plot, None)}

    def command(bench: Callable[..., None]) -> None:
        own = list(signature(bench).parameters.values())[1:]

        def measure(**given: object) -> None:
            chosen = {one.name: given.pop(one.name) for one in own}
            bench(_asked(_picture(pictures[0]) if pictures else None, given), **chosen)

        common = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, default), annotation=kind)
            for name, (kind, default) in options.items()
            if name not in without
        ]
        # Typer asks for the signature to learn what the options are.
        vars(measure)["__signature__"] = Signature(
            [*(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own), *common]
        )
        app.command(bench.__name__, help=getdoc(bench))(measure)

    return command


def _asked(picture: Path | None, given: dict[str, Any]) -> Options:
    """Return what the common options ask for."""
    no_plot, plot = given.pop("no_plot", False), given.pop("plot", None)
    return Options(
        console=Console(),
        queries=tuple(given.pop("queries")),
        rows=tuple(map(row_count, given.pop("rows"))),
        seeds=tuple(given.pop("seed")),
        plot=None if no_plot else plot or picture,
        **given,
    )


def _fail_unless(right: bool) -> None:
    if not right:
        raise typer.Exit(1)


# Against ordinary Spark.


@_bench("slices")
def slices(options: Options) -> None:
    """Many windows over one hour of trades (the paper's workload A), against ordinary Spark.

    Example: weft bench slices -n 16 -n 256 --json slices.json
    """
    _fail_unless(all(one.figures.rows_equal is not False for one in run_slices(options)))


@_bench("fragments")
def fragments(options: Options) -> None:
    """Many predicates in the same windows (the paper's workload B), against ordinary Spark.

    Example: weft bench fragments -n 16 -n 256 --seed 1 --seed 2
    """
    _fail_unless(all(one.figures.rows_equal is not False for one in run_fragments(options)))


@_bench("shards-regular", "shards-low")
def shards(
    options: Options,
    low: Annotated[
        bool,
        typer.Option("--low/--regular", help="No predicate and no window twice, or √n of each."),
    ] = False,
) -> None:
    """Many predicates and many windows (the paper's workload C), against ordinary Spark.

    Example: weft bench shards --low -n 256 -n 4096
    """
    if low and options.plot == _picture("shards-regular"):
        options = replace(options, plot=_picture("shards-low"))
    results = run_fragments(options, Predicates.LOW if low else Predicates.REGULAR)
    _fail_unless(all(one.figures.rows_equal is not False for one in results))


# Ways of sharing.


@_bench(
    "figures", without=("slicing",), queries=[16, 64, 256], rows=["200000"], repeats=3,
    check=Check.SAMPLE,
)  # fmt: skip
def figures(
    options: Options,
    figure: Annotated[
        list[int],
        typer.Option(help="Which of the paper's figures, 13 to 16; may be repeated.", min=13, max=16),
    ] = list(FIGURES),  # noqa: B006
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds after which a way is not run again; one that would take more is not run.", min=0
        ),
    ] = 30.0,
) -> None:
    """Each way to share or not, side by side: the paper's Figures 13 to 16, timed.

    Example: weft bench figures --figure 16 -n 64
    """
    _fail_unless(all(one.passed for one in run_ways(options, figures=figure, patience_s=patience)))


# Many windows.


@_bench("windows", without=("measured", "check"), queries=list(SCOTTY_SIZES), rows=["8000000"], repeats=3)
def windows(options: Options) -> None:
    """Tumbling windows of random length (Scotty's workload): throughput from 1 to 1,000 windows.

    Example: weft bench windows -n 1 -n 1000
    """
    run_windows(options)


# Memory.


@_bench(
    without=("measured", "repeats", "warmups", "check", "plot", "no_plot"), rows=["10000000"]
)  # fmt: skip
def memory(options: Options) -> None:
    """Ten million rows in 2 GB of heap, and state that does not grow with the input.

    Example: weft bench memory --rows 10000000
    """
    run_memory(options)


# Queries that come and go.


@_bench("churn", without=("measured",), rows=["4000000"], repeats=3, check=Check.SAMPLE)
def churn(
    options: Options,
    operations: Annotated[int, typer.Option(help="How many queries join or leave in a run.", min=2)] = 400,
    batches: Annotated[int, typer.Option(help="Micro-batches in a run.", min=2)] = 40,
    memory_batches: Annotated[
        int, typer.Option(help="Small batches over which memory is watched; 0: none.", min=0)
    ] = 0,
) -> None:
    """Queries that come and go while the stream runs (workload C regular): throughput, rows and memory.

    Example: weft bench churn --operations 1000
    """
    options = replace(options, batches=batches)
    results = run_churn(options, operations=operations, memory_batches=memory_batches)
    _fail_unless(all(one.passed for one in results))


# Benches with options of their own.

for _other in (relations, predicates, alerts, queries, dashboards):
    app.command()(_other)
