"""The paper's Figures 13 to 16, timed, as tables."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from weft.bench.operations import PAPER_SECONDS
from weft.bench.report import equality, seeds_of
from weft.bench.signatures import PAPER_COUNTS, PAPER_SIZE, Sharing
from weft.bench.workloads import Predicates

if TYPE_CHECKING:
    from weft.bench.ways import WaysResult

_TITLES = {
    13: "A: n windows",
    14: Predicates.FRAGMENTS.described,
    15: Predicates.REGULAR.described,
    16: Predicates.LOW.described,
}
_WORKLOADS = {14: Predicates.FRAGMENTS, 15: Predicates.REGULAR, 16: Predicates.LOW}


def title_of(figure: int) -> str:
    """Return a figure's workload in words."""
    return f"Figure {figure}, {_TITLES[figure]}"


def printed_seconds(figure: int) -> dict[str, float]:
    """Return what the paper printed for 256 queries, by the name of the way that does the same."""
    if figure == 13:
        return {str(strategy): seconds for strategy, seconds in PAPER_SECONDS.items()}
    both = PAPER_COUNTS[_WORKLOADS[figure]]
    return {"unshared": both[Sharing.UNSHARED].seconds, "joint": both[Sharing.SHARED].seconds}


def show_ways(result: "WaysResult", console: Console) -> None:
    """Print the seconds of every way, and what was compared."""
    title = f"{title_of(result.figure)}, {result.rows:,} rows"
    table = Table(title=title, title_justify="left", caption_justify="left")
    columns = "queries|way|seconds|spread|relations|partial|final|the paper, s"
    for name in columns.split("|"):
        table.add_column(name, justify="left" if name == "way" else "right", no_wrap=True)
    for one in result.taken:
        paper = printed_seconds(result.figure).get(one.way) if one.queries == PAPER_SIZE else None
        timed = (f"> {result.patience_s:g}" if one.relations else "not run", "")
        if one.seconds.runs:
            timed = (f"{one.seconds.median:,.2f}", one.seconds.spread)
        table.add_row(
            f"{one.queries:,}", one.way, *timed, f"{one.relations:,}", f"{one.partial_ops:,}",
            f"{one.final_ops:,}", "" if paper is None else f"{paper:.2f}",
        )  # fmt: skip
    table.caption = (
        f"Medians of all counted rounds ({result.repeats} for each of {seeds_of(result.seeds)}), with their "
        f"least and most, after {result.warmups} that warm up; every way has a checkpoint on disk. One that "
        f"takes more than {result.patience_s:g} s is not run again, and one that would is not run. The "
        "paper's program had 1,138,636 rows in memory and nothing durable."
    )
    if result.figure == 13:
        table.caption += (
            f" Unshared: the mean of {result.measured} engines with one query each, times all; each engine "
            "reads the stream."
        )
    console.print(table)
    console.print(equality(result.compared))
