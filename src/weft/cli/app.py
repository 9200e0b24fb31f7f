"""The `weft` command: a module for each subcommand, and errors as messages."""

import sys
from importlib import import_module
from typing import Any, cast

import typer
from rich.console import Console
from typer.core import TyperGroup

from weft import __version__
from weft.errors import EXTRAS, NotInstalled, UserError

_COMMANDS = {
    "run": "run.run",
    "explain": "explain.explain",
    "demo": "demo.demo",
    "add": "control.add",
    "apply": "applying.apply",
    "drop": "control.drop",
    "pause": "control.pause",
    "resume": "control.resume",
    "list": "control.list_queries",
    "show": "control.show",
    "stop": "control.stop",
    "bench": "bench.app",
}
"""The subcommands, each with its module and what is in it: a function, or an app with commands of its own."""


class _Commands(TyperGroup):
    """The subcommands, of which only the one that is called is imported: Spark's modules take long."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a subcommand; None if there is none of this name."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = _imported(cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the subcommand of a command line; a message names the nearest one."""
        if args[0] not in _COMMANDS:
            self.commands = cast(Any, dict.fromkeys(_COMMANDS))
        return super().resolve_command(ctx, args)


def _imported(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].partition(".")
    found = getattr(import_module(f"weft.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=_Commands,
    help="Many sliding-window queries over one stream, as one Spark pipeline.\n\n"
    "Example: weft run workload.sql --out results/",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
        message = _message(error)
        if message is None:
            raise
        Console(stderr=True, highlight=False, soft_wrap=True).print("[bold red]error:[/] ", end="")
        print(message, file=sys.stderr)
        raise SystemExit(1) from None


def _message(error: Exception) -> str | None:
    """Return what a user is told of an error; None if it is a bug."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in EXTRAS:
        return str(NotInstalled(package, "this command"))
    if isinstance(error, UserError) and "py4j" not in sys.modules:
        return str(error)
    # Imported late, for it imports Spark's modules.
    from weft.spark.session.troubles import JAVA_ENDED, Trouble, is_machines, sentence, trouble_of

    if trouble_of(error) is Trouble.JAVA:
        return JAVA_ENDED
    if isinstance(error, UserError):
        return str(error)
    return sentence(error, again="start again") if is_machines(error) else None
