"""`weft run`: all data there is, or as it comes."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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
Out = Annotated[
    str | None, typer.Option(help="Folder for results, one Parquet dataset a query.", show_default=False)
]
Checkpoint = Annotated[
    str | None, typer.Option(help="Folder to resume from and commit to.", show_default=False)
]
Postgres = Annotated[
    str | None,
    typer.Option(
        help="PostgreSQL to write results to, a table a query; where others see the command line, "
        "give it by the environment.",
        envvar="WEFT_POSTGRES",
        show_default=False,
    ),
]
Quarantine = Annotated[
    str | None, typer.Option(help="Folder for rows that cannot be used, with the reason.", show_default=False)
]
Late = Annotated[str | None, typer.Option(help="Folder for rows that came too late.", show_default=False)]
Follow = Annotated[bool, typer.Option("--follow", help="Keep going as data comes; Ctrl-C stops.")]
Flush = Annotated[bool, typer.Option("--flush", help="Close all windows at the end, even with a checkpoint.")]
Rewind = Annotated[
    bool,
    typer.Option("--rewind", help="Take sinks back to the checkpoint, once it is shown what would go."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --rewind: do not ask.")]
HowShared = Annotated[
    RunSharing, typer.Option(help="How predicates share; none: each query as ordinary Spark.")
]
HowSliced = Annotated[Slicing, typer.Option(help="How windows are cut into slices.")]
Interval = Annotated[str, typer.Option(help="With --follow: time between batches.")]
Idle = Annotated[
    str | None,
    typer.Option(help="With --follow: close windows when no row came for so long.", show_default=False),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(help="Another limit than usual, as in queries=500; may be repeated.", show_default=False),
]
LogFile = Annotated[Path | None, typer.Option(help="File to append logs to.", show_default=False)]
LogLevel = Annotated[
    Level | None, typer.Option(help="From which level on to log.", show_default="warning; in a file info")
]
JsonLogs = Annotated[bool, typer.Option("--json-logs", help="Log one JSON object a line.")]
Cores = Annotated[int | None, typer.Option(help="Cores of a local Spark.", min=1, show_default="all")]
Memory = Annotated[str | None, typer.Option(help="Heap of a local Spark.", show_default="2g")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where a run's state, results and set-aside rows go."""

    out: str | None
    checkpoint: str | None
    postgres: str | None = field(repr=False)  # it may hold a password
    quarantine: str | None
    late: str | None

    def given(self) -> dict[str, Any]:
        """Return what the engine is to be started with."""
        folders = {
            "out": self.out, "checkpoint": self.checkpoint, "quarantine": self.quarantine, "late": self.late,
        }  # fmt: skip
        return {name: place for name, place in folders.items() if place is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """How long a run goes on."""

    follow: bool
    flush: bool
    interval: str
    idle: str | None


def run(
    workload: Workload,
    out: Out = None,
    checkpoint: Checkpoint = None,
    follow: Follow = False,
    flush: Flush = False,
    sharing: HowShared = RunSharing.AUTO,
    slicing: HowSliced = Slicing.PAIRED,
    interval: Interval = "1 second",
    idle: Idle = None,
    postgres: Postgres = None,
    quarantine: Quarantine = None,
    late: Late = None,
    rewind: Rewind = False,
    yes: Yes = False,
    limit: Limit = None,
    log_file: LogFile = None,
    log_level: LogLevel = None,
    json_logs: JsonLogs = False,
    cores: Cores = None,
    memory: Memory = None,
) -> None:
    """Answer the queries of a workload over all data there is, then stop; --follow keeps going.

    Example: weft run workload.sql --out results/
    """
    console = Console(stderr=True)
    places = _Places(out=out, checkpoint=checkpoint, postgres=postgres, quarantine=quarantine, late=late)
    plain = sharing is RunSharing.NONE
    if rewind and checkpoint is None:
        raise typer.BadParameter(
            "sinks are taken back to a checkpoint; give --checkpoint", param_hint="--rewind"
        )
    with logs(log_level, file=log_file, as_json=json_logs):
        with console.status("starting Spark"):
            engine = load(
                workload,
                slicing=slicing,
                sharing=Sharing.AUTO if plain else Sharing(sharing),
                cores=cores,
                memory=memory,
                limits=Limits.parse(limit or ()),
            )
            if not engine.queries and (plain or checkpoint is None):
                raise EngineError(f"{workload} has no queries; add CREATE QUERY name AS SELECT …")
            _ = engine.spark
        if plain:
            _run_plain(engine, places, follow=follow)
        else:
            pace = _Pace(follow=follow, flush=flush, interval=interval, idle=idle)
            _run(console, engine, places, pace, rewind=yes if rewind else None)


def _run(console: Console, engine: Engine, places: _Places, pace: _Pace, *, rewind: bool | None) -> None:
    """Run streams; `rewind` takes sinks back to the checkpoint: True without asking, False if it may."""
    stop, ended, clean = Stop(say_leaving), False, False
    keep = not pace.follow and places.out is None and places.postgres is None
    view = LiveView(console, engine.status)
    approve = False if rewind is None else asking(console, yes=rewind, hidden=view.hidden)
    with stop.listening(), view as observe:
        engine.start(
            **places.given(), sinks=_sinks(console, places, pace), on_batch=observe, keep=keep,
            follow=pace.follow, interval=pace.interval, idle=pace.idle if pace.follow else None,
            rewind=approve,
        )  # fmt: skip
        try:
            ended = await_end(engine.wait, stop)
            clean = True
        finally:
            # A run over all data there is closes windows only if it came to their end.
            at_end = ended and (pace.flush or places.checkpoint is None)
            hush(engine.spark)
            engine.stop(flush=clean and (pace.flush if pace.follow else at_end))
    if stop.asked:
        console.print("stopped between batches" + ("" if pace.follow else ", before the end of the input"))
    status, durable = engine.status(), places.checkpoint is not None
    check_delivered(status.sinks, durable=durable)
    if not pace.follow:
        _show(engine, places, kept=keep)
    failed = [name for one in status.streams.values() for name in one.failed]
    if failed:
        _say_failed(failed, durable=durable)
        raise typer.Exit(_QUERY_FAILED)


def check_delivered(sinks: Sequence[DeliveryStatus], *, durable: bool) -> None:
    """Refuse to call a run done whose results a sink has not taken."""
    for one in sinks:
        if one.behind:
            fate = (
                "they wait in the checkpoint: mend it and start again"
                if durable
                else "they are lost, for there is no --checkpoint to keep them"
            )
            raise EngineError(
                f"sink {one.sink} has not taken the results of {one.behind:,} commits "
                f"({one.error or 'it is too slow'}); {fate}"
            )


def _say_failed(names: Sequence[str], *, durable: bool) -> None:
    """Name the queries that failed; why they did may hold values of rows."""
    shown = ", ".join(names[:_NAMED_QUERIES])
    more = f" and {len(names) - _NAMED_QUERIES:,} more" if len(names) > _NAMED_QUERIES else ""
    what = "query failed" if len(names) == 1 else "queries failed"
    why = "weft show tells more" if durable else "weft show tells more of a run with --checkpoint"
    print(f"{len(names):,} {what} in this run: {shown}{more}; {why}", file=sys.stderr)


def _sinks(console: Console, places: _Places, pace: _Pace) -> list[MakeSink]:
    sinks: list[MakeSink] = []
    if (dsn := places.postgres) is not None:
        PostgresSink(dsn)  # A string that cannot be read is told now.
        # Not a partial function, which would show the string.
        sinks.append(lambda: PostgresSink(dsn))
    # On a terminal the live view shows the newest results.
    shown = console.is_terminal and sys.stdout.isatty()
    if pace.follow and places.out is None and not sinks and not shown:
        sinks.append(ConsoleSink)
    return sinks


def _run_plain(engine: Engine, places: _Places, *, follow: bool) -> None:
    if follow or set(places.given()) - {"out"} or places.postgres is not None:
        raise EngineError(
            "--sharing none runs over all data there is, and writes to --out only: it takes neither --follow "
            "nor --checkpoint, --postgres, --quarantine or --late"
        )
    names = list(engine.queries)
    schemas = {name: result_schema(query.logical) for name, query in engine.queries.items()}
    sink = None
    if places.out is not None:
        sink = ParquetSink(open_folder(places.out, lambda: engine.spark), queries=schemas)
        sink.resume(-1)
    for number, name in enumerate(track(names, description="ordinary Spark", console=Console(stderr=True))):
        rows = engine.run_plain(name)
        if sink is not None:
            sink.deliver(number, {name: rows})
        elif name in names[:_SHOWN_QUERIES]:
            _print(name, rows)
    if sink is not None:
        sink.flush()


def _show(engine: Engine, places: _Places, *, kept: bool) -> None:
    if not kept:
        where = places.out or "PostgreSQL"
        Console(stderr=True).print(f"results of {len(engine.queries):,} queries in {where}")
        return
    for name in list(engine.queries)[:_SHOWN_QUERIES]:
        _print(name, engine.results(name))
    if len(engine.queries) > _SHOWN_QUERIES:
        print(f"and {len(engine.queries) - _SHOWN_QUERIES:,} more queries; --out FOLDER keeps all results")


def _print(name: str, rows: pa.Table) -> None:
    Console().print(as_table(name, rows, rows=10))
