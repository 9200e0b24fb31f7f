"""Results of the benches of fragments and shards as tables."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from weft.bench.report import seconds_table, show_checks
from weft.bench.signatures import PAPER_COUNTS, PAPER_SIZE, Sharing
from weft.bench.workloads import Predicates

if TYPE_CHECKING:
    from weft.bench.fragments import FragmentsResult

_SECTIONS = {Predicates.FRAGMENTS: "6.3", Predicates.REGULAR: "6.4.1", Predicates.LOW: "6.4.2"}


def show_fragments(result: "FragmentsResult", console: Console) -> None:
    """Print seconds, operations, signatures and what was checked."""
    console.rule(result.workload.described)
    console.print(seconds_table(result.figures, joins="two broadcast joins, where, "))
    console.print(_operations(result))
    console.print(_signatures(result))
    show_checks(result.figures, console)
    change = result.change
    console.print(
        f"plan_change_ms {change.plan_change_ms:.0f}: the batch after a query joined took "
        f"{change.changed_ms:.0f} ms, others {change.batch_ms:.0f} ms; "
        f"the call that adds it {change.add_ms:.0f} ms (medians of {change.adds})"
    )


def _operations(result: "FragmentsResult") -> Table:
    section = _SECTIONS[result.workload]
    table = Table(
        title=f"operations of {result.figures.queries:,} queries (STS, section {section})",
        title_justify="left",
    )
    for name in ("", "partial", "final", "paper's partial", "paper's final", "paper's seconds"):
        table.add_column(name, justify="right" if name else "left")
    counted = result.signatures
    for sharing, one in ((Sharing.UNSHARED, counted.unshared), (Sharing.SHARED, counted.shared)):
        paper = PAPER_COUNTS[result.workload][sharing]
        printed = (f"{paper.partial:,}", f"{paper.final:,}", f"{paper.seconds:.2f}")
        known = result.figures.queries == PAPER_SIZE
        table.add_row(sharing, f"{one.partial:,}", f"{one.final:,}", *(printed if known else ("", "", "")))
    fewer = (counted.unshared.total, counted.shared.total)
    table.caption = (
        "Counted from the rows, not by Weft; final operations are of windows that end within the hour. "
        f"Sharing needs {fewer[1] / fewer[0]:.1%} of the operations. "
        "The paper read about 1.1 M rows and took the mean of 10 sets of queries."
    )
    table.caption_justify = "left"
    return table


def _signatures(result: "FragmentsResult") -> Table:
    unit = "window" if result.workload is Predicates.FRAGMENTS else "slice"
    table = Table(title=f"signatures of a {unit}, by number of queries (STS, section 4.3.3)")
    table.title_justify = "left"
    for name in ("queries", "k", "alpha", "beta", "unshared operations", "shared operations", "fewer"):
        table.add_column(name, justify="right")
    for one in result.counted:
        alone, together = one.unshared.total, one.shared.total
        table.add_row(
            f"{one.queries:,}", f"{one.k:,.0f}", f"{one.alpha:,.1f}", f"{one.beta:,.1f}", f"{alone:,}",
            f"{together:,}", f"{alone / together:.1f} ×",
        )  # fmt: skip
    table.caption = (
        f"k: different signatures in a {unit}; alpha: queries that a row satisfies; beta: queries in a "
        f"signature; means over {unit}s."
    )
    table.caption_justify = "left"
    return table
