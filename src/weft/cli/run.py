"""`weft run`: its options, and what can be wrong with them and with the workload before Spark is started."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.checking import Files, check_folder, queries_of, read_workload
from weft.errors import BadWindow, EngineError
from weft.limits import Limits
from weft.logs import Level, logs
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.query import parse_duration


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
    plain, limits = sharing is RunSharing.NONE, Limits.parse(limit or ())
    if plain and (follow or any(value is not None for value in (checkpoint, quarantine, late))):
        raise EngineError(
            "--sharing none runs over all data there is: it takes neither --follow nor --checkpoint, "
            "--quarantine or --late"
        )
    _check_duration("--interval", interval)
    _check_duration("--idle", idle)
    with logs(log_level, file=log_file, as_json=json_logs):
        for option, folder in (("--checkpoint", checkpoint), ("--quarantine", quarantine), ("--late", late)):
            check_folder(option, folder)
        statements = read_workload(
            workload,
            limits=limits,
            files=Files.MAY_COME if follow or checkpoint is not None else Files.THERE,
            queries_known=checkpoint is None,
        )
        if checkpoint is None and not queries_of(statements):
            raise EngineError(f"{workload} has no queries; add CREATE QUERY name AS SELECT …")
        # Imported once there is no mistake: it takes long.
        from weft.cli.running import Options, run_workload

        options = Options(
            sharing=None if plain else Sharing(sharing), slicing=slicing, limits=limits, out=out,
            checkpoint=checkpoint, postgres=postgres, quarantine=quarantine, late=late, follow=follow,
            flush=flush, interval=interval, idle=idle, rewind=yes if rewind else None, cores=cores,
            memory=memory,
        )  # fmt: skip
        run_workload(statements, options, base=workload.parent)


def _check_duration(option: str, text: str | None) -> None:
    """Raise BadWindow if an option is no duration."""
    if text is not None:
        try:
            parse_duration(text)
        except BadWindow as error:
            raise BadWindow(f"{option}: {error.problem}") from None
