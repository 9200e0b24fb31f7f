"""`weft bench`: what sharing costs and saves, as ratios taken within one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weft.bench.alerts import SIZES as ALERTS
from weft.bench.alerts import run_alerts
from weft.bench.churn import run_churn
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check
from weft.bench.fragments import FragmentsResult, run_fragments
from weft.bench.memory import run_memory
from weft.bench.opaque import run_opaque
from weft.bench.opaque_queries import SIZES as PREDICATES
from weft.bench.opaque_queries import Case
from weft.bench.queries import QUERY_COUNTS, run_queries
from weft.bench.relations import SIZES, run_relations
from weft.bench.slices import SlicesResult, run_slices
from weft.bench.windows import run_windows
from weft.bench.workloads import PAPER_SIZES, SCOTTY_SIZES, Predicates
from weft.cli.bench_dashboards import dashboards

app = typer.Typer(
    help="Measure Weft against ordinary Spark. Example: weft bench slices --rows 4000000",
    no_args_is_help=True,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the figures there.", show_default=False)]
NoPlot = Annotated[bool, typer.Option("--no-plot", help="Draw no picture.")]
Data = Annotated[Path, typer.Option(help="Where generated data is kept.")]
Cores = Annotated[int | None, typer.Option(help="Cores of the local Spark.", min=1, show_default="all")]
Repeats = Annotated[int, typer.Option(help="Rounds, alternating between what is compared.", min=1)]
Sizes = Annotated[
    list[int], typer.Option("--queries", "-n", help="How many queries; may be repeated.", min=1)
]
Rows = Annotated[int, typer.Option(help="Trades in the hour.", min=1000)]
Measured = Annotated[int, typer.Option(help="Ordinary Spark queries that are measured.", min=1)]
Checked = Annotated[Check, typer.Option(help="Which queries' rows are compared with Spark's.")]
Cases = Annotated[list[Case], typer.Option("--case", help="Which predicates; may be repeated.")]
_PLOT = "Write a picture there (PNG)."


def _picture(name: str) -> Path:
    return Path("bench-results") / f"{name}.png"


@dataclass(frozen=True, slots=True)
class _Bench:
    """What a command measures, and the name of its picture."""

    name: str
    run: Callable[..., Sequence[SlicesResult | FragmentsResult]]


def _against_spark(*pictures: str) -> Callable[[Callable[..., _Bench]], None]:
    """Make a command of a bench against Spark, with the options that they all have besides its own."""
    shown = " or ".join(str(_picture(name)) for name in pictures)

    def command(bench: Callable[..., _Bench]) -> None:
        def measure(
            queries: Sizes = [PAPER_SIZES[-1]],  # noqa: B006
            rows: Rows = 4_000_000,
            measured: Measured = 5,
            repeats: Repeats = 3,
            check: Checked = Check.ALL,
            json: Json = None,
            plot: Annotated[Path | None, typer.Option(help=_PLOT, show_default=shown)] = None,
            no_plot: NoPlot = False,
            data: Data = DEFAULT_DATA,
            cores: Cores = None,
            **own: object,
        ) -> None:
            chosen = bench(**own)
            results = chosen.run(
                console=Console(), queries=queries, rows=rows, measured=measured, repeats=repeats,
                check=check, json=json, plot=None if no_plot else plot or _picture(chosen.name), data=data,
                cores=cores,
            )  # fmt: skip
            if any(result.figures.rows_equal is False for result in results):
                raise typer.Exit(1)

        common = [one for one in signature(measure).parameters.values() if one.kind != Parameter.VAR_KEYWORD]
        own = signature(bench).parameters.values()
        # Typer asks for the signature to learn what the options are.
        vars(measure)["__signature__"] = Signature([*own, *common])
        app.command(bench.__name__, help=getdoc(bench))(measure)

    return command


@_against_spark("slices")
def slices() -> _Bench:
    """Many windows over one hour of trades (the paper's workload A), against ordinary Spark.

    Example: weft bench slices -n 16 -n 256 --json slices.json
    """
    return _Bench("slices", run_slices)


@_against_spark("fragments")
def fragments() -> _Bench:
    """Many predicates in the same windows (the paper's workload B), against ordinary Spark.

    Example: weft bench fragments -n 16 -n 256
    """
    return _Bench("fragments", run_fragments)


@_against_spark("shards-regular", "shards-low")
def shards(
    low: Annotated[
        bool,
        typer.Option("--low/--regular", help="No predicate and no window twice, or √n of each."),
    ] = False,
) -> _Bench:
    """Many predicates and many windows (the paper's workload C), against ordinary Spark.

    Example: weft bench shards --low -n 256 -n 4096
    """
    workload = Predicates.LOW if low else Predicates.REGULAR
    return _Bench(f"shards-{workload}", partial(run_fragments, workload=workload))


@app.command()
def windows(
    queries: Annotated[
        list[int], typer.Option("--queries", "-n", help="How many windows; may be repeated.")
    ] = list(SCOTTY_SIZES),  # noqa: B006
    rows: Annotated[int, typer.Option(help="Rows in all.", min=1000)] = 8_000_000,
    repeats: Repeats = 3,
    json: Json = None,
    plot: Annotated[Path | None, typer.Option(help=_PLOT, show_default=str(_picture("windows")))] = None,
    no_plot: NoPlot = False,
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
        plot=None if no_plot else plot or _picture("windows"),
        data=data,
        cores=cores,
    )


@app.command()
def relations(
    relations: Annotated[
        list[int],
        typer.Option(
            "--relations", "-r", help="In how many ways queries group; may be repeated.", min=1, max=16
        ),
    ] = list(SIZES),  # noqa: B006
    queries: Annotated[int, typer.Option("--queries", "-n", help="How many queries.", min=1)] = 60,
    rows: Annotated[int, typer.Option(help="Rows of the batch.", min=1)] = 50_000,
    repeats: Repeats = 7,
    check: Checked = Check.SAMPLE,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Queries with 1 to 16 GROUP BYs over one batch: its Spark stage against one ordinary grouped query.

    Example: weft bench relations -r 7 -r 16 --rows 50000
    """
    result = run_relations(
        console=Console(), relations=relations, queries=queries, rows=rows, repeats=repeats,
        check=check, json=json, data=data, cores=cores,
    )  # fmt: skip
    if not result.rows_equal:
        raise typer.Exit(1)


@app.command()
def alerts(
    alerts: Annotated[
        list[int], typer.Option("--alerts", "-n", help="How many alerts; may be repeated, 1 first.", min=1)
    ] = list(ALERTS),  # noqa: B006
    rows: Annotated[int, typer.Option(help="Rows of a batch.", min=100)] = 10_000,
    batches: Annotated[int, typer.Option(help="Micro-batches in a run.", min=3)] = 20,
    repeats: Repeats = 3,
    seed: Annotated[int, typer.Option(help="What the rows are drawn from.")] = 1,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Alerts that differ in one constant of HAVING: their finals against those of one such alert.

    Example: weft bench alerts -n 1 -n 300
    """
    result = run_alerts(
        console=Console(), alerts=alerts, rows_per_batch=rows, batches=batches, repeats=repeats, seed=seed,
        json=json, data=data, cores=cores,
    )  # fmt: skip
    if result.differences:
        raise typer.Exit(1)


@app.command()
def predicates(
    cases: Cases = list(Case),  # noqa: B006
    predicates: Annotated[
        list[int], typer.Option("--predicates", "-n", help="How many; may be repeated.", min=1)
    ] = list(PREDICATES),  # noqa: B006
    rows: Annotated[int, typer.Option(help="Rows in the hour.", min=1000)] = 1_000_000,
    repeats: Repeats = 3,
    check: Checked = Check.SAMPLE,
    seed: Annotated[int, typer.Option(help="What rows and predicates are drawn from.")] = 1,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Predicates that are no thresholds (LIKE, comparisons of columns, many columns), against ordinary Spark.

    Example: weft bench predicates --case like -n 16 -n 256
    """
    results = run_opaque(
        console=Console(), cases=cases, predicates=predicates, rows=rows, repeats=repeats, check=check,
        seed=seed, json=json, data=data, cores=cores,
    )  # fmt: skip
    if not all(result.equal for result in results):
        raise typer.Exit(1)


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


@app.command()
def queries(
    queries: Sizes = list(QUERY_COUNTS),  # noqa: B006
    seed: Annotated[int, typer.Option(help="What windows and thresholds are drawn with.")] = 1,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Thousands of queries: what reading and planning them costs, and a change among them.

    Example: weft bench queries -n 1000 -n 10000 --seed 7
    """
    run_queries(console=Console(), queries=queries, seed=seed, json=json, data=data, cores=cores)


@app.command()
def churn(
    queries: Annotated[
        int, typer.Option("--queries", "-n", help="How many queries there are: a square number.", min=1)
    ] = 256,
    operations: Annotated[int, typer.Option(help="How many queries join or leave in a run.", min=2)] = 1000,
    rows: Rows = 10_000_000,
    batches: Annotated[int, typer.Option(help="Micro-batches in a run.", min=2)] = 8,
    memory_batches: Annotated[
        int, typer.Option(help="Small batches over which memory is watched; 0: none.", min=0)
    ] = 500,
    repeats: Repeats = 3,
    check: Checked = Check.SAMPLE,
    json: Json = None,
    plot: Annotated[Path | None, typer.Option(help=_PLOT, show_default=str(_picture("churn")))] = None,
    no_plot: NoPlot = False,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Queries that come and go while the stream runs (workload C regular): throughput, rows and memory.

    Example: weft bench churn --operations 1000
    """
    result = run_churn(
        console=Console(), queries=queries, operations=operations, rows=rows, batches=batches,
        repeats=repeats, memory_batches=memory_batches, check=check, json=json,
        plot=None if no_plot else plot or _picture("churn"), data=data, cores=cores,
    )  # fmt: skip
    if not result.passed:
        raise typer.Exit(1)


app.command()(dashboards)
