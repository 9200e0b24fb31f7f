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
from weft.cli.rewinding import asking
from weft.cli.stopping import Stop, await_end, say_leaving
from weft.cli.workload import load
from weft.engine import Engine
from weft.errors import EngineError
from weft.finals.results import result_schema
from weft.limits import Limits
from weft.logs import Level, logs
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.query.logical import SinkDef, SinkKind
from weft.sinks import DeliveryStatus, as_table
from weft.sinks.declared import short_form
from weft.spark.session.local import hush

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


Workload = Annotated[
    Path, typer.Argument(help="A file of CREATE STREAM, CREATE TABLE, CREATE SINK and CREATE QUERY.")
]
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

    Results go to the sinks that the workload declares; --out and --postgres declare one each.

    Example: weft run workload.sql --out results/

    Example of a sink in a workload: CREATE SINK files USING parquet OPTIONS (path 'results/') FOR q1, q2;
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
                memory=memory, limits=Limits.parse(limit or ()), sinks=short_forms(options),
                try_sinks=lambda engine, queries: engine.try_sinks(
                    queries=queries, checkpoint=checkpoint, follow=follow
                ),
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
    if options.follow and not engine.sinks and not (console.is_terminal and sys.stdout.isatty()):
        # On a terminal the live view shows the newest results.
        engine.sink("console", "console")
    _tell_unread(engine)
    keep = not options.follow and not engine.sinks
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
        targets = dict.fromkeys(sink.target for sink in engine.sinks.values())
        console.print(f"results of {len(engine.queries):,} queries in {', '.join(targets)}")
    failed = [name for stream in status.streams.values() for name in stream.failed]
    if failed:
        # Without the errors, which may hold values of rows.
        what = "query failed" if len(failed) == 1 else "queries failed"
        why = "weft show has the errors" + ("" if durable else " of a run with --checkpoint")
        print(f"{len(failed):,} {what} in this run: {_listed(failed)}; {why}", file=sys.stderr)
        raise typer.Exit(_QUERY_FAILED)


def _run_streams(
    console: Console, engine: Engine, options: _Options, stop: Stop, *, keep: bool, rewind: bool | None
) -> None:
    """Run streams to their end, or until a stop is requested, with the live view."""
    view, ended, clean = LiveView(console, engine.status), False, False
    with stop.listening(), view as observe:
        engine.start(
            checkpoint=options.checkpoint, quarantine=options.quarantine, late=options.late,
            on_batch=observe, keep=keep, follow=options.follow,
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


def short_forms(options: _Options) -> list[SinkDef]:
    """Return the sinks that `--out` and `--postgres` declare."""
    given = {SinkKind.PARQUET: options.out, SinkKind.POSTGRES: options.postgres}
    return [short_form(kind, value) for kind, value in given.items() if value is not None]


def _tell_unread(engine: Engine) -> None:
    """Print the names of queries that no sink gets, if there are sinks at all."""
    declared = engine.sinks.values()
    if declared and all(sink.queries for sink in declared):
        unread = [name for name in engine.queries if not any(name in sink.queries for sink in declared)]
        if unread:
            print(f"no sink is FOR {_listed(unread)}: their results are not kept", file=sys.stderr)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_QUERIES:,} more" if len(names) > _NAMED_QUERIES else ""
    return ", ".join(names[:_NAMED_QUERIES]) + more


def _run_plain(engine: Engine, options: _Options) -> None:
    unsupported = (options.checkpoint, options.quarantine, options.late)
    if options.follow or any(value is not None for value in unsupported):
        raise EngineError(
            "--sharing none runs over all data there is: it takes neither --follow nor --checkpoint, "
            "--quarantine or --late"
        )
    names = list(engine.queries)
    outlets = engine.outlets()
    for outlet in outlets:
        for name, query in engine.queries.items():
            outlet.expect(name, result_schema(query.logical))
        outlet.sink.resume(-1)
    for number, name in enumerate(track(names, description="ordinary Spark", console=Console(stderr=True))):
        rows = engine.run_plain(name)
        for outlet in outlets:
            outlet.sink.deliver(number, {name: rows} if outlet.gets(name) else {})
        if not outlets and number < _SHOWN_QUERIES:
            _print(name, rows)
    for outlet in outlets:
        outlet.sink.flush()
        outlet.sink.close()


def _print(name: str, rows: pa.Table) -> None:
    Console().print(as_table(name, rows, rows=10))
