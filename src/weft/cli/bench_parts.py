"""The benches of one part of Weft: the Spark stage, predicates, finals of alerts, reading and planning."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weft.bench.alerts import SIZES as ALERTS
from weft.bench.alerts import run_alerts
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check
from weft.bench.opaque import run_opaque
from weft.bench.opaque_queries import SIZES as PREDICATES
from weft.bench.opaque_queries import Case
from weft.bench.queries import QUERY_COUNTS, run_queries
from weft.bench.relations import SIZES as RELATIONS
from weft.bench.relations import run_relations

Json = Annotated[Path | None, typer.Option("--json", help="Write the figures there.", show_default=False)]
Data = Annotated[Path, typer.Option(help="Where generated data is kept.")]
Cores = Annotated[int | None, typer.Option(help="Cores of the local Spark.", min=1, show_default="all")]
Repeats = Annotated[int, typer.Option(help="Rounds that count; all that is compared runs in each.", min=1)]
Cases = Annotated[list[Case], typer.Option("--case", help="Which predicates; may be repeated.")]
Seed = Annotated[int, typer.Option(help="What rows or queries are drawn from.")]


def relations(
    relations: Annotated[
        list[int],
        typer.Option(
            "--relations", "-r", help="Ways in which queries group; may be repeated.", min=1, max=16
        ),
    ] = list(RELATIONS),  # noqa: B006
    queries: Annotated[int, typer.Option("--queries", "-n", help="How many queries.", min=1)] = 60,
    rows: Annotated[int, typer.Option(help="Rows of the batch.", min=1)] = 50_000,
    repeats: Repeats = 7,
    check: Annotated[Check, typer.Option(help="Whose rows are compared with Spark's.")] = Check.SAMPLE,
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


def predicates(
    cases: Cases = list(Case),  # noqa: B006
    predicates: Annotated[
        list[int], typer.Option("--predicates", "-n", help="How many; may be repeated.", min=1)
    ] = list(PREDICATES),  # noqa: B006
    rows: Annotated[int, typer.Option(help="Rows in the hour.", min=1000)] = 1_000_000,
    repeats: Repeats = 3,
    check: Annotated[Check, typer.Option(help="Whose rows are compared with Spark's.")] = Check.SAMPLE,
    seed: Seed = 1,
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


def alerts(
    alerts: Annotated[
        list[int], typer.Option("--alerts", "-n", help="How many alerts; may be repeated, 1 first.", min=1)
    ] = list(ALERTS),  # noqa: B006
    rows: Annotated[int, typer.Option(help="Rows of a batch.", min=100)] = 10_000,
    batches: Annotated[int, typer.Option(help="Micro-batches in a run.", min=3)] = 20,
    repeats: Repeats = 3,
    seed: Seed = 1,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Alerts that differ in one constant of HAVING: their finals against those of one such alert.

    The constant stands alone, or beside a condition that all alerts have in common.

    Example: weft bench alerts -n 1 -n 300
    """
    result = run_alerts(
        console=Console(), alerts=alerts, rows_per_batch=rows, batches=batches, repeats=repeats, seed=seed,
        json=json, data=data, cores=cores,
    )  # fmt: skip
    if result.differences:
        raise typer.Exit(1)


def queries(
    queries: Annotated[
        list[int], typer.Option("--queries", "-n", help="How many queries; may be repeated.", min=1)
    ] = list(QUERY_COUNTS),  # noqa: B006
    seed: Seed = 1,
    json: Json = None,
    data: Data = DEFAULT_DATA,
    cores: Cores = None,
) -> None:
    """Thousands of queries: what reading and planning them costs, and a change among them.

    Example: weft bench queries -n 1000 -n 10000 --seed 7
    """
    run_queries(console=Console(), queries=queries, seed=seed, json=json, data=data, cores=cores)
