"""The queries of a trial, as text for Weft and as plain data for the oracle."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.faults.events import COLUMNS, DELAY_MS

STREAM = "events"

AGGREGATES = {
    "n": ("count(*)", ("seq", "count", "all")),
    "total": ("sum(seq)", ("seq", "sum", "some")),
    "lowest": ("min(seq)", ("seq", "min", "some")),
    "highest": ("max(seq)", ("seq", "max", "some")),
    "marks": ("sum(mark)", ("mark", "sum", "some")),
    "volume": ("sum(vol)", ("vol", "sum", "some")),
    "known": ("count(vol)", ("vol", "count", "some")),
    "money": ("sum(amount)", ("amount", "sum", "some")),
    "mean": ("avg(price)", ("price", "mean", "some")),
    "tags": ("count(DISTINCT tag)", ("tag", "count_distinct", "some")),
    "volumes": ("count(DISTINCT vol)", ("vol", "count_distinct", "some")),
}
"""By name of the output: its text, and its column, function and treatment of NULL for the oracle."""

Test = Callable[[pa.Table], pa.ChunkedArray]
PREDICATES: dict[str, Test] = {
    "": lambda rows: pa.chunked_array([pa.array([True] * rows.num_rows)]),
    "vol > 300": lambda rows: pc.greater(rows["vol"], 300),
    "vol > 700": lambda rows: pc.greater(rows["vol"], 700),
    "vol BETWEEN 200 AND 600": lambda rows: pc.and_(
        pc.greater_equal(rows["vol"], 200), pc.less_equal(rows["vol"], 600)
    ),
    "tag = 'a'": lambda rows: pc.equal(rows["tag"], "a"),
    "tag IS NULL": lambda rows: pc.is_null(rows["tag"]),
    "tag <> 'b' AND vol < 500": lambda rows: pc.and_(
        pc.not_equal(rows["tag"], "b"), pc.less(rows["vol"], 500)
    ),
    "price > 100.0 OR tag = 'c'": lambda rows: pc.or_kleene(
        pc.greater(rows["price"], 100.0), pc.equal(rows["tag"], "c")
    ),
}
"""Conditions by their text; a NULL does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query."""

    name: str
    range_ms: int
    slide_ms: int
    keys: tuple[str, ...] = ()
    where: str = ""
    outputs: tuple[str, ...] = ("n", "total")
    empty: bool = False
    """Whether windows without rows are answered, too."""

    @property
    def audit(self) -> bool:
        """Whether the query's marks tell how often each event was counted."""
        whole = self.range_ms == self.slide_ms and not self.where
        return whole and self.keys == ("producer", "block") and "marks" in self.outputs

    @property
    def select(self) -> str:
        """The query's text."""
        items = [*self.keys, *(f"{AGGREGATES[name][0]} AS {name}" for name in self.outputs)]
        where = f" WHERE {self.where}" if self.where else ""
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        window = f"[RANGE '{self.range_ms} ms' SLIDE '{self.slide_ms} ms']"
        empty = " EMIT EMPTY" if self.empty else ""
        return f"SELECT {', '.join(items)} FROM {STREAM} {window}{where}{grouped}{empty}"


STANDING = (
    Asked(name="audit", range_ms=4_000, slide_ms=4_000, keys=("producer", "block"), outputs=("marks", "n")),
    Asked(
        name="sliding_audit",
        range_ms=7_000,
        slide_ms=3_000,
        keys=("producer", "block"),
        outputs=("marks", "n"),
    ),
    Asked(name="everything", range_ms=10_000, slide_ms=5_000, outputs=tuple(AGGREGATES)),
    Asked(
        name="by_producer",
        range_ms=12_000,
        slide_ms=5_000,
        keys=("producer",),
        where="vol > 300",
        outputs=("n", "total", "lowest", "highest", "mean", "volumes"),
    ),
    Asked(name="large", range_ms=12_000, slide_ms=5_000, keys=("producer",), where="vol > 700"),
    Asked(
        name="by_tag",
        range_ms=6_000,
        slide_ms=2_000,
        keys=("tag",),
        where="price > 100.0 OR tag = 'c'",
        outputs=("n", "total", "money"),
    ),
    Asked(
        name="gaps", range_ms=2_000, slide_ms=9_000, where="tag <> 'b' AND vol < 500", outputs=("n", "volume")
    ),
)
"""The queries that are there from the start."""


def random_query(name: str, chance: random.Random) -> Asked:
    """Return some query."""
    slide = chance.choice([1_000, 2_000, 3_000, 5_000])
    return Asked(
        name=name,
        range_ms=slide * chance.randint(1, 4) + chance.choice([0, 0, 500]),
        slide_ms=slide,
        keys=chance.choice([(), ("producer",), ("tag",), ("producer", "tag")]),
        where=chance.choice(list(PREDICATES)),
        outputs=("n", *chance.sample([name for name in AGGREGATES if name not in ("n", "marks")], 2)),
    )


def write_workload(path: Path, queries: Iterable[Asked], *, input: Path, files_per_batch: int) -> None:
    """Write a workload file over a folder of events."""
    stream = (
        f"CREATE STREAM {STREAM} ({COLUMNS})\n"
        f"  USING parquet OPTIONS (path '{input}', maxFilesPerTrigger '{files_per_batch}')\n"
        f"  EVENT TIME time DELAY '{DELAY_MS} ms';\n"
    )
    path.write_text(stream + "".join(f"CREATE QUERY {one.name} AS {one.select};\n" for one in queries))
