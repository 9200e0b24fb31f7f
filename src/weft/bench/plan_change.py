"""What adding a query to a running stream costs: its own call, and the batch after it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from weft.bench.fixed_cost import tiny_trades
from weft.bench.options import Options
from weft.bench.records import Record, Seconds
from weft.bench.runs import How, Input, engine_for, is_micro_batch, run_engine
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.stream.pipeline import BatchReport

_EVERY = 4
"""Batches from one query that joins to the next: most batches have no change before them."""
_WARM_UP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange(Record):
    """Every batch and call of a run in which queries joined."""

    quiet: Seconds
    """Tiny batches in which nothing changed."""
    changed: Seconds
    """The batches after a query joined."""
    add: Seconds
    """The calls of `Engine.add`: each returns when the query is in the checkpoint, if there is one."""

    @property
    def adds(self) -> int:
        """How many queries joined."""
        return len(self.add.runs)

    @property
    def plan_change_ms(self) -> float:
        """What a query that joins costs: its call, and what the batch after it takes longer."""
        return 1000 * (self.add.median + self.changed.median - self.quiet.median)

    def as_json(self) -> dict[str, object]:
        """Return the medians in milliseconds."""
        return {
            "adds": self.adds,
            "batch_ms": 1000 * self.quiet.median,
            "changed_ms": 1000 * self.changed.median,
            "add_ms": 1000 * self.add.median,
        }


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
        if not is_micro_batch(report):
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
    given: Input,
    queries: Sequence[BenchQuery],
    joining: Sequence[BenchQuery],
    options: Options,
    *,
    durable: bool,
) -> PlanChange:
    """Run tiny batches through the queries, and let others join one by one on the way."""
    given = tiny_trades(given, batches=(len(joining) + 1) * _EVERY)
    watch = _Watch(engine_for(given, queries, How(slicing=options.slicing)), list(joining))
    run_engine(given, watch.engine, watch.note, durable=durable)
    quiet, changed, add = (Seconds(tuple(runs)) for runs in (watch.quiet_s, watch.changed_s, watch.add_s))
    return PlanChange(quiet=quiet, changed=changed, add=add)
