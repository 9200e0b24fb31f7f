"""`weft run`: all data there is, or as it comes."""

import signal
import threading
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track

from weft.cli.live import LiveView
from weft.cli.workload import load
from weft.engine import Engine
from weft.errors import EngineError
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.runtime.results import result_schema
from weft.runtime.sinks import ConsoleSink, ParquetSink, as_table

_SHOWN_QUERIES = 5


class RunSharing(StrEnum):
    """How queries share work, if they do."""

    AUTO = Sharing.AUTO
    JOINT = Sharing.JOINT
    SEPARATE = Sharing.SEPARATE
    UNSHARED = Sharing.UNSHARED
    NONE = "none"


def run(
    workload: Annotated[Path, typer.Argument(help="A file of CREATE STREAM, CREATE TABLE and CREATE QUERY.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for results, one Parquet dataset a query.", show_default=False)
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to resume from and commit to.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep going as data comes; Ctrl-C stops.")] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="Close all windows at the end, even with a checkpoint.")
    ] = False,
    sharing: Annotated[
        RunSharing, typer.Option(help="How predicates share; none: each query as ordinary Spark.")
    ] = RunSharing.AUTO,
    slicing: Annotated[Slicing, typer.Option(help="How windows are cut into slices.")] = Slicing.PAIRED,
    interval: Annotated[str, typer.Option(help="With --follow: time between batches.")] = "1 second",
    idle: Annotated[
        str | None,
        typer.Option(help="With --follow: close windows when no row came for so long.", show_default=False),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(help="Cores of a local Spark.", min=1, show_default="all")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Heap of a local Spark.", show_default="2g")] = None,
) -> None:
    """Answer the queries of a workload over all data there is, then stop; --follow keeps going.

    Example: weft run workload.sql --out results/
    """
    console = Console(stderr=True)
    with console.status("starting Spark"):
        plain = sharing is RunSharing.NONE
        shared = Sharing.AUTO if plain else Sharing(sharing)
        engine = load(workload, slicing=slicing, sharing=shared, cores=cores, memory=memory)
        if not engine.queries:
            raise EngineError(f"{workload} has no queries; add CREATE QUERY name AS SELECT …")
        _ = engine.spark
    if plain:
        _run_plain(engine, out, follow=follow, checkpoint=checkpoint)
    elif follow:
        _follow(console, engine, out, checkpoint, flush=flush, interval=interval, idle=idle)
    else:
        with LiveView(console, engine) as observe:
            engine.run(
                out=out, checkpoint=checkpoint, flush=flush or None, on_batch=observe, keep=out is None
            )
        _show(engine, out)


def _follow(
    console: Console, engine: Engine, out: Path | None, checkpoint: Path | None,
    *, flush: bool, interval: str, idle: str | None,
) -> None:  # fmt: skip
    stopped = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_to_stop)
    sinks = [ConsoleSink()] if out is None else []
    with LiveView(console, engine) as observe:
        engine.start(
            out=out, checkpoint=checkpoint, sinks=sinks, on_batch=observe, keep=False,
            interval=interval, idle=idle,
        )  # fmt: skip
        clean = False
        try:
            while not stopped.is_set() and not engine.wait(1):
                pass
            clean = True
        finally:
            engine.stop(flush=flush and clean)


def _run_plain(engine: Engine, out: Path | None, *, follow: bool, checkpoint: Path | None) -> None:
    if follow or checkpoint is not None:
        raise EngineError(
            "--sharing none runs over all data there is: it takes neither --follow nor --checkpoint"
        )
    names = list(engine.queries)
    schemas = {name: result_schema(query.logical) for name, query in engine.queries.items()}
    sink = None if out is None else ParquetSink(out, queries=schemas)
    for name in track(names, description="ordinary Spark", console=Console(stderr=True)):
        rows = engine.run_plain(name)
        if sink is not None:
            sink.deliver(0, {name: rows})
        elif name in names[:_SHOWN_QUERIES]:
            _print(name, rows)
    if sink is not None:
        sink.flush()


def _show(engine: Engine, out: Path | None) -> None:
    if out is not None:
        Console(stderr=True).print(f"results of {len(engine.queries):,} queries in {out}")
        return
    for name in list(engine.queries)[:_SHOWN_QUERIES]:
        _print(name, engine.results(name))
    if len(engine.queries) > _SHOWN_QUERIES:
        print(f"and {len(engine.queries) - _SHOWN_QUERIES:,} more queries; --out FOLDER keeps all results")


def _print(name: str, rows: pa.Table) -> None:
    Console().print(as_table(name, rows, rows=10))
