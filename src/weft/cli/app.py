"""The `weft` command: a module for each subcommand, and errors as messages."""

import sys

import typer
from rich.console import Console

from weft import __version__
from weft.cli import applying, bench, control, demo, explain, run
from weft.errors import UserError
from weft.spark.session.troubles import JAVA_ENDED, Trouble, is_machines, sentence, trouble_of

app = typer.Typer(
    help="Many sliding-window queries over one stream, as one Spark pipeline.\n\n"
    "Example: weft run workload.sql --out results/",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("explain")(explain.explain)
app.command("demo")(demo.demo)
app.command("add")(control.add)
app.command("apply")(applying.apply)
app.command("drop")(control.drop)
app.command("pause")(control.pause)
app.command("resume")(control.resume)
app.command("list")(control.list_queries)
app.command("show")(control.show)
app.command("stop")(control.stop)
app.add_typer(bench.app, name="bench")


def _show_version(requested: bool) -> None:
    if requested:
        print(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; a user's mistake or a fault of the machine is a message and exit code 1."""
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if trouble_of(error) is Trouble.JAVA:
            message = JAVA_ENDED
        elif isinstance(error, UserError):
            message = str(error)
        elif is_machines(error):
            message = sentence(error, again="start again")
        else:
            raise
        Console(stderr=True, highlight=False, soft_wrap=True).print("[bold red]error:[/] ", end="")
        print(message, file=sys.stderr)
        raise SystemExit(1) from None
