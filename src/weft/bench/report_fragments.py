"""Results of the benches of fragments and shards as tables."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from weft.bench.report import add_own_run, operations_table, seconds_table, show_checks
from weft.bench.signatures import PAPER_COUNTS, PAPER_SIZE, Sharing
from weft.bench.workloads import Predicates

if TYPE_CHECKING:
    from weft.bench.fragments import FragmentsResult

_SECTIONS = {Predicates.FRAGMENTS: "6.3", Predicates.REGULAR: "6.4.1", Predicates.LOW: "6.4.2"}


def show_fragments(result: "FragmentsResult", console: Console) -> None:
    """Print seconds, operations, signatures and what was checked."""
    console.rule(result.workload.described)
    console.print(seconds_table(result.figures, joins="two broadcast joins of tables in memory, where, "))
    if len(result.figures.seeds) == 1:
        console.print(_operations(result))
        console.print(_signatures(result))
        console.print(premise(result))
    show_checks(result.figures, console)
    change, without = result.change, result.change_without_checkpoint
    console.print(
        f"plan_change_ms {change.plan_change_ms:.0f}: the call that adds a query took "
        f"{1000 * change.add.median:.0f} ms, the batch after it {1000 * change.changed.median:.0f} ms, "
        f"others {1000 * change.quiet.median:.0f} ms (medians of {change.adds} queries that join); without a "
        f"checkpoint {without.plan_change_ms:.0f}"
    )


def premise(result: "FragmentsResult") -> str:
    """Say how much sharing saves by the paper's count, here and in the paper."""
    printed, own = PAPER_COUNTS[result.workload], result.signatures
    theirs = printed[Sharing.UNSHARED].total / printed[Sharing.SHARED].total
    return (
        f"premise: shared and unshared operations of {own.queries:,} queries stand 1 : {own.times_fewer:.2f} "
        f"over these {result.figures.rows:,} rows; in the paper 1 : {theirs:.2f} (256 queries, 1,138,636 "
        "rows)"
    )


def _operations(result: "FragmentsResult") -> Table:
    figures, counted = result.figures, result.signatures
    table = operations_table(figures, _SECTIONS[result.workload])
    for one in (counted.unshared, counted.shared):
        table.add_row(one.strategy, f"{one.partial:,}", f"{one.final:,}")
    add_own_run(table, figures)
    if figures.queries == PAPER_SIZE:
        for sharing, paper in PAPER_COUNTS[result.workload].items():
            numbers = (f"{paper.partial:,}", f"{paper.final:,}", f"{paper.seconds:.2f}")
            table.add_row(f"the paper, {sharing}", *numbers)
    table.caption = (
        "Unshared and shared are counted from the rows, F0 aside, as if all queries had one relation, over "
        "windows that end within the hour. Weft's run has those closed at the end of input, too, and a "
        "row once for each relation that it takes part in. "
        "The paper read about 1.1 M rows and took the mean of 10 sets of queries."
    )
    return table


def _signatures(result: "FragmentsResult") -> Table:
    unit = "window" if result.workload is Predicates.FRAGMENTS else "slice"
    table = Table(
        title=f"signatures of a {unit}, and operations, by number of queries (STS, section 4.3.3)",
        title_justify="left",
        caption_justify="left",
    )
    for name in ("queries", "k", "α", "β", "unshared", "shared", "fewer"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in result.counted:
        table.add_row(
            f"{one.queries:,}", f"{one.k:,.0f}", _mean(one.alpha), _mean(one.beta),
            f"{one.unshared.total:,}", f"{one.shared.total:,}", f"{one.times_fewer:.2f} ×",
        )  # fmt: skip
    table.caption = (
        f"k: different signatures in a {unit}, the empty one (F0) aside; α: queries that a row satisfies; "
        f"β: queries in a signature; means over {unit}s."
    )
    return table


def _mean(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"
