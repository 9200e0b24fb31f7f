"""`weft explain`: the shared plan, its cost, and what is shared with whom."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.checking import read_workload
from weft.cli.run import Limit, Sliced, Workload
from weft.errors import EngineError
from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing


def explain(
    workload: Workload,
    rate: Annotated[
        float | None, typer.Option(help="Rows per second to compute costs for.", min=0.0, show_default=False)
    ] = None,
    sharing: Annotated[Sharing, typer.Option(help="How predicates share.")] = Sharing.AUTO,
    slicing: Sliced = Slicing.PAIRED,
    limit: Limit = None,
    svg: Annotated[
        Path | None, typer.Option(help="File for a picture of the plan, as SVG.", show_default=False)
    ] = None,
) -> None:
    """Show the shared plan of a workload, its cost, and what is shared with whom.

    Example: weft explain workload.sql --rate 375

    Example: weft explain workload.sql --svg plan.svg
    """
    limits = Limits.parse(limit or ())
    statements = read_workload(workload, limits=limits)
    # Imported once there is no mistake: they take long.
    from weft.cli.workload import load
    from weft.optimizer.plan_svg import plan_svg

    engine = load(statements, base=workload.parent, slicing=slicing, sharing=sharing, limits=limits)
    print(engine.explain(rows_per_second=rate))
    if svg is not None:
        try:
            svg.write_text(plan_svg(engine.plans()), encoding="utf-8")
        except OSError as error:
            raise EngineError(
                f"cannot write the picture to {svg}: {error.strerror}; choose another --svg"
            ) from None
