"""What `weft bench dashboards` found, and the bars that it is held against."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from statistics import median
from typing import ClassVar

from weft.bench import report
from weft.bench.records import Record, plain


class Mode(StrEnum):
    """How the stream is taken."""

    REPLAY = "replay"
    LIVE = "live"


class Contender(StrEnum):
    """Who takes part."""

    SCAN = "bare scan"
    DUCKDB = "DuckDB, one by one"
    WEFT = "Weft"
    NO_CHECKPOINT = "Weft, no checkpoint"
    PLAIN = "Weft, no HAVING or arithmetic"
    KEEPING = "Weft, HAVING keeps all rows"
    SPARK_BATCH = "Spark batch, one by one"
    SPARK_STREAM = "Spark streaming, one by one"
    ONE_STREAM = "one Spark streaming query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar(Record):
    """A figure and what it may be at most, or must be at least."""

    computed: ClassVar[str] = "met"
    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is within the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(report.Result):
    """What was measured for one number of queries in one mode."""

    mode: Mode
    queries: int
    computing: int
    """How many have HAVING or arithmetic on aggregates."""
    rows: int
    batches: int
    cores: int
    runs_s: Mapping[Contender, tuple[float, ...]]
    """Every counted run: seconds of all batches in a replay, the median batch of a live run."""
    warmup_s: Mapping[Contender, tuple[float, ...]]
    """Every run before those that count."""
    results: Mapping[Contender, int]
    """Result rows of Weft's runs."""
    stages_s: Mapping[Contender, Mapping[str, float]]
    """Where the time of Weft's runs went; medians over counted runs."""
    batch_sample: int
    streaming_sample: int
    """How many ordinary queries ran; what all of them take is scaled by the mean."""
    differences: tuple[str, ...]
    """How Weft's rows differ from DuckDB's, query by query."""

    @property
    def passed(self) -> bool:
        """Whether Weft's rows are DuckDB's."""
        return not self.differences

    def seconds(self, contender: Contender) -> float:
        """Return the median of all counted runs."""
        return median(self.runs_s[contender])

    def spread(self, contender: Contender) -> float:
        """Return the distance of the slowest run from the quickest, relative to the median."""
        runs = self.runs_s[contender]
        return (max(runs) - min(runs)) / median(runs)

    def ratio(self, one: Contender, other: Contender) -> float | None:
        """Return the ratio of two medians; None if one did not take part."""
        if one not in self.runs_s or other not in self.runs_s:
            return None
        return self.seconds(one) / self.seconds(other)

    def ratio_by_pairs(self, one: Contender, other: Contender) -> float | None:
        """Return the median of the ratios within each round."""
        if one not in self.runs_s or other not in self.runs_s:
            return None
        return median(a / b for a, b in zip(self.runs_s[one], self.runs_s[other], strict=True))

    def results_per_s(self, contender: Contender = Contender.WEFT) -> float:
        """Return the result rows per second of a whole replay: those that HAVING leaves."""
        return self.results[contender] / self.seconds(contender)

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The bars that apply to this number of queries."""
        found = [
            _at_most("Weft / DuckDB", self._to(Contender.DUCKDB), {60: 3.0, 300: 1.5}.get(self.queries)),
            _at_most(
                "Weft / Spark batch", self._to(Contender.SPARK_BATCH), 0.25 if self.queries == 60 else None
            ),
            _at_most(
                # With equally many results: alerts that rarely fire would flatter the ratio.
                "with / without HAVING and arithmetic",
                self.ratio(Contender.KEEPING, Contender.PLAIN),
                1.15,
            ),
        ]
        if self.mode is Mode.LIVE:
            limit = 2.0 if self.queries == 60 else None
            found = [_at_most("Weft's batch / one streaming query's", self._to(Contender.ONE_STREAM), limit)]
        elif self.queries >= 60:
            for contender in (Contender.WEFT, Contender.KEEPING):
                if contender in self.runs_s:
                    rate = self.results_per_s(contender)
                    found.append(Bar(name=f"results/s, {contender}", value=rate, limit=1e6, at_least=True))
        return tuple(bar for bar in found if bar is not None)

    def _to(self, other: Contender) -> float | None:
        return self.ratio(Contender.WEFT, other)

    def as_json(self) -> dict[str, object]:
        """Return all fields by name, with medians, spreads and ratios."""
        others = [name for name in self.runs_s if name is not Contender.WEFT]
        return {
            **Record.as_json(self),
            "seconds": {name: self.seconds(name) for name in self.runs_s},
            "spread": {name: self.spread(name) for name in self.runs_s},
            "ratio_of_weft_to": {name: self._to(name) for name in others},
            "ratio_by_pairs": {name: self.ratio_by_pairs(Contender.WEFT, name) for name in others},
            "results_per_s": {
                name: self.results_per_s(name) for name in self.results if self.mode is Mode.REPLAY
            },
            "bars": plain(self.bars),
            "rows_equal": not self.differences,
            "versions": {name: version(name) for name in ("pyspark", "duckdb", "pyarrow")},
        }


def _at_most(name: str, value: float | None, limit: float | None) -> Bar | None:
    return None if value is None or limit is None else Bar(name=name, value=value, limit=limit)
