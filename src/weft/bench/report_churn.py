"""The bench of queries that come and go, as tables."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from weft.bench.report import equality

if TYPE_CHECKING:
    from weft.bench.churn import ChurnResult
    from weft.bench.churn_memory import MemoryOverTime


def show_churn(result: "ChurnResult", console: Console) -> None:
    """Print seconds, what was compared, and memory."""
    title = f"{result.operations:,} queries come or go, beside {result.queries:,} over {result.rows:,} rows"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in ("", "seconds", "best", "rows/s"):
        table.add_column(name, justify="left" if not name else "right")
    for name, taken in (("without changes", result.quiet_s), ("with changes", result.churned_s)):
        rate = result.rows / taken.median
        table.add_row(name, f"{taken.median:.2f}", f"{taken.best:.2f}", f"{rate:,.0f}")
    table.caption = (
        f"Medians of {len(result.quiet_s.runs)} alternating runs after a warm-up round that is not counted; "
        f"{result.batches} micro-batches, of which {result.plans} had a plan of their own. Half of the "
        "changes are queries that join: in turn, a new predicate and a new window take the place of the "
        "oldest, in all of their queries, so the workload stays regular. "
        f"The calls themselves took {result.calls_s:.2f} s and are included."
    )
    console.print(table)
    console.print(equality(result.compared))
    console.print(
        f"throughput_with_changes {result.throughput:.2f} ({result.throughput_at_best:.2f} at best)"
    )
    if result.memory is not None:
        _show_memory(result.memory, console)


def _show_memory(memory: "MemoryOverTime", console: Console) -> None:
    title = f"memory over {memory.batches:,} batches with {memory.operations:,} changes"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in ("", "mean", "per 100 batches", "growth", "spread", ""):
        table.add_column(name, justify="left" if not name else "right")
    for name, one in (
        ("JVM live heap, MB", memory.jvm),
        ("Python resident, MB", memory.python),
        ("partials held", memory.partials),
    ):
        numbers = (one.mean, one.per_100_batches, one.growth, one.spread)
        table.add_row(name, *(f"{number:,.1f}" for number in numbers), "flat" if one.flat else "grows")
    table.caption = (
        f"A line through {len(memory.settled)} samples, after windows have filled. Flat: what it grows by is "
        "within twice the spread of the samples around it, or is less than the megabyte that Python and "
        "Java take at a time."
    )
    console.print(table)
