"""The bench of queries that come and go, as tables."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from weft.bench.report import equality, seeds_of

if TYPE_CHECKING:
    from weft.bench.churn import ChurnResult
    from weft.bench.churn_memory import MemoryOverTime


def show_churn(result: "ChurnResult", console: Console) -> None:
    """Print seconds, what was compared, and memory."""
    title = (
        f"{result.operations:,} queries come or go, beside {result.queries:,} over {result.rows:,} rows, "
        f"{seeds_of(result.seeds)}"
    )
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in ("", "seconds", "spread", "rows/s"):
        table.add_column(name, justify="left" if not name else "right")
    for rounds, kind in ((result.durable, ""), (result.without_checkpoint, ", no checkpoint")):
        for name, taken in (("without changes", rounds.quiet), ("with changes", rounds.churned)):
            rate = f"{result.rows / taken.median:,.0f}"
            table.add_row(f"{name}{kind}", f"{taken.median:.2f}", taken.spread, rate)
    durable = result.durable
    table.caption = (
        f"Medians of all {len(durable.quiet.runs)} counted rounds, with their least and most, after "
        f"{result.warmups} that warm up; {result.batches} micro-batches, of which {result.plans} had a plan "
        "of their own. Half of the changes are queries that join: in turn, a new predicate and a new window "
        "take the place of the oldest, in all of their queries, so the workload stays regular. Changes are "
        "spread evenly over the batches; each is a call of its own, durable when it returns, and no round "
        f"repeats another's. A call took {1000 * durable.calls.median:.0f} ms (median; at most "
        f"{1000 * durable.calls.most:.0f}), which is included."
    )
    console.print(table)
    console.print(equality(result.compared))
    if result.compared.queries:
        console.print(f"{result.warm:,} queries answered earlier windows than they could rely on")
    console.print(
        f"throughput_with_changes {durable.throughput:.2f}; by rounds {durable.throughput_by_pairs:.2f} "
        f"({min(durable.pairs):.2f}–{max(durable.pairs):.2f}); without a checkpoint "
        f"{result.without_checkpoint.throughput:.2f}"
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
