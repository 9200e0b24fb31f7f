"""The bench of memory, as a table."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from weft.bench.memory import MemoryResult


def show_memory(result: "MemoryResult", console: Console) -> None:
    """Print peaks and retained state."""
    title = f"{result.queries:,} queries in a {result.heap} heap"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in "run|rows|event time|seconds|retained partials|JVM live|JVM RSS|Python RSS".split("|"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for runs, durable in ((result.durable, True), (result.without_checkpoint, False)):
        for name, one in (("many rows", runs.large), ("short", runs.short), ("ten times as long", runs.long)):
            table.add_row(
                name if durable else f"{name}, no checkpoint", f"{one.rows:,}", f"{one.hours} h",
                f"{one.seconds:.1f}", f"{one.most_retained:,}",
                *(f"{size:,.0f} MB" for size in (one.jvm_live_mb, one.jvm_rss_mb, one.python_rss_mb)),
            )  # fmt: skip
    table.caption = (
        "Each run is a process of its own, once. RSS: its peak. Live: the heap after a collection at the "
        "end. Runs have a checkpoint on disk unless it says otherwise."
    )
    console.print(table)
    for name, runs in (("", result.durable), (", without a checkpoint", result.without_checkpoint)):
        console.print(
            f"ten times the event time{name}: retained partials × {runs.retained_ratio:.2f}, "
            f"Python RSS × {runs.rss_ratio:.2f}"
        )
