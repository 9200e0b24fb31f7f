"""What a batch did, for the loop, sinks and the live view."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.notices import Failure, Notice
from weft.optimizer.cost import Fragmentation
from weft.optimizer.plan import Grouping, Relation
from weft.state.clock import RowCounts
from weft.state.store import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch did."""

    counts: RowCounts
    results: Mapping[str, pa.Table]
    """New results by query."""
    partial_ops: int = 0
    """Rows aggregated into partials."""
    final_ops: int = 0
    """Partials combined into results."""
    unshared_ops: int = 0
    """Rows that would be aggregated if each query ran alone."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time spent in each stage."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """By query, the number of rows or results that failed in this batch and became NULL."""
    blocks: Mapping[tuple[Grouping, int], Block] = field(default_factory=dict)
    """What the batch added to each relation, by the relation's grouping and id."""
    oldest_kept: int | None = None
    """Slices that begin before it, in microseconds, were evicted: no open window holds them."""
    fragmentations: Sequence[tuple[Relation, Fragmentation]] = ()
    """How the predicates of each shared relation split the batch's rows."""
    replanned: bool = False
    """Whether the plan differs from that of the batch before."""
    broken: Mapping[str, Failure] = field(default_factory=dict)
    """Queries that failed and were removed from the plan, each with its failure."""
    set_aside: Callable[[], DataFrame] | None = None
    """Returns the rows that were not aggregated; None if there were none."""
    notices: tuple[Notice, ...] = ()
    """What the user should know of the batch: files set aside, columns that changed."""
    ended: tuple[str, ...] = ()
    """The queries whose lifetime is over; they were removed from the plan."""

    @property
    def windows(self) -> int:
        """Number of result rows."""
        return sum(table.num_rows for table in self.results.values())
