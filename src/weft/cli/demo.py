"""`weft demo`: an hour of trades, 256 window queries, one Spark stream."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weft.bench.dataset import DEFAULT_DATA
from weft.bench.trades import make_trades
from weft.bench.workloads import paper_queries
from weft.cli.live import LiveView
from weft.engine import Engine
from weft.sinks import as_table
from weft.spark.session.local import local_session


def demo(
    queries: Annotated[int, typer.Option(help="How many window queries.", min=1)] = 256,
    rows: Annotated[int, typer.Option(help="How many trades in the hour.", min=1000)] = 1_138_636,
    data: Annotated[Path, typer.Option(help="Folder of the trades.")] = DEFAULT_DATA,
) -> None:
    """Make an hour of trades, run many window queries over it as one stream, and show plan and results.

    Example: weft demo --queries 64
    """
    console = Console()
    with console.status("starting Spark"):
        spark = local_session()
    with console.status(f"making an hour of {rows:,} trades in {data}"):
        trades = make_trades(spark, data, rows=rows)
    engine = Engine(spark)
    engine.load(trades.statement(files_per_trigger=2))
    for query in paper_queries(queries):
        engine.add(query.sql, name=query.name)
    console.rule(f"{queries} queries, one stream")
    with LiveView(console, engine.status) as observe:
        engine.run(on_batch=observe)
    console.rule("the shared plan")
    console.print(engine.explain(), highlight=False, markup=False)
    console.rule("first results")
    for name in list(engine.queries)[:3]:
        console.print(as_table(name, engine.results(name), rows=4))
