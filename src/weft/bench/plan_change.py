"""What adding a query to a running stream costs: its own call, and the batch after it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from weft.bench.fixed_cost import tiny_trades
from weft.bench.runs import Input, engine_for
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.runtime.pipeline import BatchReport

_EVERY = 4
"""A query joins after so many batches, so that most batches are as they were."""
_WARM_UP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """Milliseconds, as medians."""

    adds: int
    batch_ms: float
    """A tiny batch in which nothing changed."""
    changed_ms: float
    """The batch after a query joined."""
    add_ms: float
    """The call of `Engine.add` itself, during which no batch is taken here."""

    @property
    def plan_change_ms(self) -> float:
        """What the change adds to the batch after it."""
        return self.changed_ms - self.batch_ms


@dataclass(slots=True)
class _Watch:
    """Time the batches between calls, and add a query now and then."""

    engine: Engine
    joining: list[BenchQuery]
    left_at: float = 0.0
    batches: int = 0
    changed: bool = False
    quiet_s: list[float] = field(default_factory=list)
    changed_s: list[float] = field(default_factory=list)
    add_s: list[float] = field(default_factory=list)

    def note(self, stream: str, report: BatchReport) -> None:
        """Take the time since the last call returned: all of a batch, and none of what is done here."""
        entered = perf_counter()
        # The windows closed at the end of input come as a report that read nothing.
        if "spark" not in report.seconds:
            return
        self.batches += 1
        if self.batches > _WARM_UP:
            (self.changed_s if self.changed else self.quiet_s).append(entered - self.left_at)
        self.changed = self.batches % _EVERY == 0 and bool(self.joining)
        if self.changed:
            query = self.joining.pop(0)
            self.engine.add(query.sql, name=query.name)
            self.add_s.append(perf_counter() - entered)
        self.left_at = perf_counter()


def plan_change(
    given: Input, queries: Sequence[BenchQuery], joining: Sequence[BenchQuery], data: Path
) -> PlanChange:
    """Run tiny batches through the queries, and let others join one by one on the way."""
    given = tiny_trades(given, data, batches=(len(joining) + 1) * _EVERY)
    watch = _Watch(engine_for(given, queries), list(joining))
    watch.engine.run(on_batch=watch.note, keep=False)
    return PlanChange(
        adds=len(watch.changed_s),
        batch_ms=1000 * median(watch.quiet_s),
        changed_ms=1000 * median(watch.changed_s),
        add_ms=1000 * median(watch.add_s),
    )
