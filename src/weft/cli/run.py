"""`weft run`: answers a workload over all data there is, or as data comes."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track

from weft.cli.live import LiveView
from weft.cli.log_options import Level, logs
from weft.cli.rewinding import asking
from weft.cli.stopping import Stop, await_end, say_leaving
from weft.cli.workload import load
from weft.engine import Engine
from weft.errors import EngineError
from weft.finals.results import result_schema
from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.service.options import MakeSink
from weft.sinks import ConsoleSink, DeliveryStatus, ParquetSink, PostgresSink, as_table
from weft.spark.session.local import hush
from weft.storage import open_folder

_SHOWN_QUERIES = 5
_NAMED_QUERIES = 20
_QUERY_FAILED = 3
"""The exit code of a run that ended as asked, but without some of its queries."""


class RunSharing(StrEnum):
    """How queries share work, if they do."""

    AUTO = Sharing.AUTO
    JOINT = Sharing.JOINT
    SEPARATE = Sharing.SEPARATE
    UNSHARED = Sharing.UNSHARED
    NONE = "none"


Workload = Annotated[Path, typer.Argument(help="A file of CREATE STREAM, CREATE TABLE and CREATE QUERY.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(help="Another limit than usual, as in queries=500; may be repeated.", show_default=False),
]
Sliced = Annotated[Slicing, typer.Option(help="How windows are cut into slices.")]
_Out = Annotated[
    str | None, typer.Option(help="Folder for results, one Parquet dataset a query.", show_default=False)
]
_Checkpoint = Annotated[
    str | None, typer.Option(help="Folder to resume from and commit to.", show_default=False)
]
_Follow = Annotated[bool, typer.Option("--follow", help="Keep going as data comes; Ctrl-C stops.")]
_Flush = Annotated[
    bool, typer.Option("--flush", help="Close all windows at the end, even with a checkpoint.")
]
_Sharing = Annotated[
    RunSharing, typer.Option(help="How predicates share; none: each query as ordinary Spark.")
]
_Interval = Annotated[str, typer.Option(help="With --follow: time between batches.")]
_Idle = Annotated[
    str | None,
    typer.Option(help="With --follow: close windows when no row came for so long.", show_default=False),
]
_Postgres = Annotated[
    str | None,
    typer.Option(
        help="PostgreSQL to write results to, a table a query; where others see the command line, "
        "give it by the environment.",
        envvar="WEFT_POSTGRES",
        show_default=False,
    ),
]
_Quarantine = Annotated[
    str | None, typer.Option(help="Folder for rows that cannot be used, with the reason.", show_default=False)
]
_Late = Annotated[str | None, typer.Option(help="Folder for rows that came too late.", show_default=False)]
_Rewind = Annotated[
    bool, typer.Option("--rewind", help="Take sinks back to the checkpoint, after showing what is removed.")
]
_Yes = Annotated[bool, typer.Option("--yes", help="With --rewind: do not ask.")]
_LogFile = Annotated[Path | None, typer.Option(help="File to append logs to.", show_default=False)]
_LogLevel = Annotated[
    Level | None, typer.Option(help="From which level on to log.", show_default="warning; in a file info")
]
_JsonLogs = Annotated[bool, typer.Option("--json-logs", help="Log one JSON object a line.")]
_Cores = Annotated[int | None, typer.Option(help="Cores of a local Spark.", min=1, show_default="all")]
_Memory = Annotated[str | None, typer.Option(help="Heap of a local Spark.", show_default="2g")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """Where a run's state, results and set-aside rows go, and when it ends."""

    out: str | None
    checkpoint: str | None
    postgres: str | None = field(repr=False)  # it may hold a password
    quarantine: str | None
    late: str | None
    follow: bool
    flush: bool
    interval: str
    idle: str | None


def run(
    workload: Workload, out: _Out = None, checkpoint: _Checkpoint = None, follow: _Follow = False,
    flush: _Flush = False, sharing: _Sharing = RunSharing.AUTO, slicing: Sliced = Slicing.PAIRED,
    interval: _Interval = "1 second", idle: _Idle = None, postgres: _Postgres = None,
    quarantine: _Quarantine = None, late: _Late = None, rewind: _Rewind = False, yes: _Yes = False,
    limit: Limit = None, log_file: _LogFile = None, log_level: _LogLevel = None,
    json_logs: _JsonLogs = False, cores: _Cores = None, memory: _Memory = None,
) -> None:  # fmt: skip
    """Answer the queries of a workload over all data there is, then stop; --follow keeps going.

    Example: weft run workload.sql --out results/
    """
    if rewind and checkpoint is None:
        raise typer.BadParameter(
            "sinks are taken back to a checkpoint; give --checkpoint", param_hint="--rewind"
        )
    console, plain = Console(stderr=True), sharing is RunSharing.NONE
    options = _Options(
        out=out, checkpoint=checkpoint, postgres=postgres, quarantine=quarantine, late=late, follow=follow,
        flush=flush, interval=interval, idle=idle,
    )  # fmt: skip
    with logs(log_level, file=log_file, as_json=json_logs):
        with console.status("starting Spark"):
            engine = load(
                workload, slicing=slicing, sharing=Sharing.AUTO if plain else Sharing(sharing), cores=cores,
                memory=memory, limits=Limits.parse(limit or ()),
            )  # fmt: skip
            if not engine.queries and (plain or checkpoint is None):
                raise EngineError(f"{workload} has no queries; add CREATE QUERY name AS SELECT …")
            _ = engine.spark
        if plain:
            _run_plain(engine, options)
        else:
            _run(console, engine, options, rewind=yes if rewind else None)


def _run(console: Console, engine: Engine, options: _Options, *, rewind: bool | None) -> None:
    """Run streams; `rewind` takes sinks back to the checkpoint: True without asking, False after asking."""
    keep = not options.follow and options.out is None and options.postgres is None
    stop = Stop(say_leaving)
    _run_streams(console, engine, options, stop, keep=keep, rewind=rewind)
    if stop.asked:
        console.print("stopped between batches" + ("" if options.follow else ", before the end of the input"))
    status, durable = engine.status(), options.checkpoint is not None
    check_delivered(status.sinks, durable=durable)
    if keep:
        names = list(engine.queries)
        for name in names[:_SHOWN_QUERIES]:
            _print(name, engine.results(name))
        if len(names) > _SHOWN_QUERIES:
            print(f"and {len(names) - _SHOWN_QUERIES:,} more queries; --out FOLDER keeps all results")
    elif not options.follow:
        console.print(f"results of {len(engine.queries):,} queries in {options.out or 'PostgreSQL'}")
    failed = [name for stream in status.streams.values() for name in stream.failed]
    if failed:
        # Without the errors, which may hold values of rows.
        shown = ", ".join(failed[:_NAMED_QUERIES])
        more = f" and {len(failed) - _NAMED_QUERIES:,} more" if len(failed) > _NAMED_QUERIES else ""
        what = "query failed" if len(failed) == 1 else "queries failed"
        why = "weft show has the errors" + ("" if durable else " of a run with --checkpoint")
        print(f"{len(failed):,} {what} in this run: {shown}{more}; {why}", file=sys.stderr)
        raise typer.Exit(_QUERY_FAILED)


def _run_streams(
    console: Console, engine: Engine, options: _Options, stop: Stop, *, keep: bool, rewind: bool | None
) -> None:
    """Run streams to their end, or until a stop is requested, with the live view."""
    view, ended, clean = LiveView(console, engine.status), False, False
    with stop.listening(), view as observe:
        engine.start(
            out=options.out, checkpoint=options.checkpoint, quarantine=options.quarantine, late=options.late,
            sinks=_sinks(console, options), on_batch=observe, keep=keep, follow=options.follow,
            interval=options.interval, idle=options.idle if options.follow else None,
            rewind=False if rewind is None else asking(console, yes=rewind, hidden=view.hidden),
        )  # fmt: skip
        try:
            ended = await_end(engine.wait, stop)
            clean = True
        finally:
            # A run over all data there is closes windows only if it came to their end.
            at_end = ended and (options.flush or options.checkpoint is None)
            hush(engine.spark)
            engine.stop(flush=clean and (options.flush if options.follow else at_end))


def check_delivered(sinks: Sequence[DeliveryStatus], *, durable: bool) -> None:
    """Raise EngineError if a sink has not taken all results of a run."""
    for status in sinks:
        if status.behind:
            fate = (
                "they wait in the checkpoint: mend it and start again"
                if durable
                else "they are lost, for there is no --checkpoint to keep them"
            )
            raise EngineError(
                f"sink {status.sink} has not taken the results of {status.behind:,} commits "
                f"({status.error or 'it is too slow'}); {fate}"
            )


def _sinks(console: Console, options: _Options) -> list[MakeSink]:
    if (dsn := options.postgres) is not None:
        PostgresSink(dsn)  # An invalid string is reported at once.
        # Not a partial function, which would show the string.
        return [lambda: PostgresSink(dsn)]
    # On a terminal the live view shows the newest results.
    live = console.is_terminal and sys.stdout.isatty()
    return [ConsoleSink] if options.follow and options.out is None and not live else []


def _run_plain(engine: Engine, options: _Options) -> None:
    unsupported = (options.checkpoint, options.postgres, options.quarantine, options.late)
    if options.follow or any(value is not None for value in unsupported):
        raise EngineError(
            "--sharing none runs over all data there is, and writes to --out only: it takes neither --follow "
            "nor --checkpoint, --postgres, --quarantine or --late"
        )
    names = list(engine.queries)
    schemas = {name: result_schema(query.logical) for name, query in engine.queries.items()}
    sink = None
    if options.out is not None:
        sink = ParquetSink(open_folder(options.out, lambda: engine.spark), queries=schemas)
        sink.resume(-1)
    for number, name in enumerate(track(names, description="ordinary Spark", console=Console(stderr=True))):
        rows = engine.run_plain(name)
        if sink is not None:
            sink.deliver(number, {name: rows})
        elif number < _SHOWN_QUERIES:
            _print(name, rows)
    if sink is not None:
        sink.flush()


def _print(name: str, rows: pa.Table) -> None:
    Console().print(as_table(name, rows, rows=10))
