"""`weft bench`: what sharing costs and saves, as ratios taken within one run.

To add one, write a module with a `Bench` (its options, what it measures, and how results are shown) and list
it here. Its docstring is the help of its command; docs/benchmarks.md lists it and its options.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from inspect import Parameter, Signature, getdoc
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.console import Console

from weft.bench.aggregates import Aggregates
from weft.bench.alerts import Alerts
from weft.bench.bench import Bench
from weft.bench.churn import Churn
from weft.bench.dashboards import Dashboards
from weft.bench.fragments import Fragments, Shards
from weft.bench.memory import Memory
from weft.bench.observers import ObserversBench
from weft.bench.opaque import OpaquePredicates
from weft.bench.options import PAPER_ROWS, row_count
from weft.bench.queries import ManyQueries
from weft.bench.relations import Relations
from weft.bench.slices import Slices
from weft.bench.ways import PaperFigures
from weft.bench.windows import Windows

BENCHES: dict[str, type[Bench[Any]]] = {
    # Against ordinary Spark.
    "slices": Slices,
    "fragments": Fragments,
    "shards": Shards,
    # Ways of sharing, many windows, memory, queries that come and go, subscribers, everyday queries.
    "figures": PaperFigures,
    "windows": Windows,
    "memory": Memory,
    "churn": Churn,
    "observers": ObserversBench,
    "dashboards": Dashboards,
    # One part of Weft: the Spark stage, predicates, finals, reading and planning.
    "relations": Relations,
    "predicates": OpaquePredicates,
    "alerts": Alerts,
    "aggregates": Aggregates,
    "queries": ManyQueries,
}
app = typer.Typer(
    help="Measure Weft against ordinary Spark. Example: weft bench slices --rows 4000000",
    no_args_is_help=True,
)
NoPlot = Annotated[bool, typer.Option("--no-plot", help="Draw no picture.")]


def _command(kind: type[Bench[Any]]) -> Callable[..., None]:
    """Return a bench as a command."""
    pictures = [Path("bench-results") / f"{name}.png" for name in kind.pictures]

    def measure(**given: Any) -> None:
        no_plot, plot = given.pop("no_plot", True), given.pop("plot", None)
        if "rows" in given:
            given["rows"] = list(map(row_count, given["rows"]))
        for name, value in given.items():
            given[name] = tuple(value) if isinstance(value, list) else value
        bench = kind(console=Console(), **given)
        if not no_plot:
            bench = replace(bench, plot=plot or pictures[bench.picture])
        if not all(result.passed for result in bench.run()):
            raise typer.Exit(1)

    parameters = _parameters(kind)
    if pictures:
        shown = " or ".join(map(str, pictures))
        plot = Annotated[Path | None, typer.Option(help="Write a picture there (PNG).", show_default=shown)]
        parameters += [_parameter("plot", plot, None), _parameter("no_plot", NoPlot, False)]
    # Typer asks for the signature to learn what the options are.
    vars(measure)["__signature__"] = Signature(parameters)
    return measure


def _parameters(kind: type[Bench[Any]]) -> list[Parameter]:
    """Return the options that a bench offers as Typer wants them: tuples are lists."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = {known.name: known.default for known in fields(kind)}
    parameters = []
    for name in kind.offers.split():
        annotation, option = get_args(hints[name])
        default: Any = defaults[name]
        if name == "rows":
            annotation = list[str]
            default = ["paper" if rows == PAPER_ROWS else str(rows) for rows in default]
        elif get_origin(annotation) is tuple:
            annotation, default = GenericAlias(list, get_args(annotation)[:1]), list(default)
        parameters.append(_parameter(name, Annotated[annotation, option], default))
    return parameters


def _parameter(name: str, annotation: Any, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


for _name, _kind in BENCHES.items():
    app.command(_name, help=getdoc(_kind))(_command(_kind))
