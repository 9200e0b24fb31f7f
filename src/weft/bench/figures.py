"""What was measured of one number of queries against ordinary Spark: all counted rounds, none chosen."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

from weft.bench.equality import Comparison, together
from weft.bench.fixed_cost import FixedCost, pooled_cost
from weft.bench.measure import Seconds, pooled
from weft.optimizer.slices import Slicing


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured for one number of queries, from one seed or from several."""

    queries: int
    rows: int
    seeds: tuple[int, ...]
    slicing: Slicing
    weft: Seconds
    """With a checkpoint on disk."""
    without_checkpoint: Seconds
    """Weft with nothing durable."""
    ordinary: Seconds
    """All counted runs of all ordinary queries that were measured."""
    scan: Seconds
    pairs: tuple[float, ...]
    """Each run of Weft over each ordinary query's run of the same round."""
    partial_ops: int
    final_ops: int
    relations: int
    """Of Weft's plan."""
    measured_queries: int
    """How many ordinary queries were run; `unshared_s` is their mean, times all."""
    repeats: int
    warmups: int
    batches: int
    windows: int
    cores: int
    pyspark: str
    register_s: float
    stages_s: dict[str, float]
    """Weft's seconds within batches, in its last run."""
    compared: Comparison
    fixed: FixedCost

    @property
    def weft_s(self) -> float:
        """Weft with a checkpoint on disk: the median of all counted rounds, as the others."""
        return self.weft.median

    @property
    def one_query_s(self) -> float:
        """One ordinary query."""
        return self.ordinary.median

    @property
    def unshared_s(self) -> float:
        """All queries as ordinary ones, by the mean of those measured."""
        return sum(self.ordinary.runs) / len(self.ordinary.runs) * self.queries

    @property
    def ratio_to_one_query(self) -> float:
        """All of Weft's queries, in units of one ordinary query."""
        return self.weft_s / self.one_query_s

    @property
    def ratio_without_checkpoint(self) -> float:
        """The same, with nothing durable on Weft's side."""
        return self.without_checkpoint.median / self.one_query_s

    @property
    def ratio_by_pairs(self) -> float:
        """The median of runs of the same round, one over the other: steady on a busy machine."""
        return median(self.pairs)

    @property
    def speedup_vs_unshared(self) -> float:
        """How many times as long the ordinary queries take together."""
        return self.unshared_s / self.weft_s

    @property
    def rows_equal(self) -> bool | None:
        """Whether all rows compared are plain Spark's; None when nothing was compared."""
        return self.compared.equal

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        timed = {
            "weft": self.weft,
            "weft_without_checkpoint": self.without_checkpoint,
            "one_query": self.ordinary,
            "scan": self.scan,
        }
        plain = (
            "queries rows seeds slicing partial_ops final_ops relations measured_queries repeats warmups "
            "batches windows cores pyspark register_s stages_s unshared_s ratio_to_one_query "
            "ratio_without_checkpoint ratio_by_pairs speedup_vs_unshared rows_equal"
        ).split()
        return {
            **{name: getattr(self, name) for name in plain},
            **{f"{name}_s": seconds.median for name, seconds in timed.items()},
            "spread_s": {name: (seconds.least, seconds.most) for name, seconds in timed.items()},
            "pairs_spread": (min(self.pairs), max(self.pairs)),
            "runs_s": {name: seconds.runs for name, seconds in timed.items()},
            "compared": asdict(self.compared),
            "fixed_cost_ms": self.fixed.over_spark_ms,
            "fixed_cost_without_checkpoint_ms": self.fixed.without_checkpoint_ms,
            "empty_batch_ms": self.fixed.empty_ms,
            "planning_ms": self.fixed.planning_ms,
        }


def pooled_figures(several: Sequence[Figures]) -> Figures:
    """Return what several seeds found together: the medians are over all rounds of all of them."""
    return replace(
        several[-1],
        seeds=tuple(seed for one in several for seed in one.seeds),
        weft=pooled(one.weft for one in several),
        without_checkpoint=pooled(one.without_checkpoint for one in several),
        ordinary=pooled(one.ordinary for one in several),
        scan=pooled(one.scan for one in several),
        pairs=tuple(ratio for one in several for ratio in one.pairs),
        compared=together([one.compared for one in several]),
        fixed=pooled_cost([one.fixed for one in several]),
    )
