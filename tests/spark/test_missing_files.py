"""Files that vanish or become others between Spark's list and the end of a batch are counted and named."""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from weft.errors import EngineError
from weft.spark.input.unread import CHANGED, VANISHED
from weft.state.clock import RowCounts
from weft.stream import loop

Change = Callable[[], object]


def moment(second: int) -> str:
    """Return a time as text."""
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


class Site:
    """A stream's folder, a checkpoint, and engines that run on them one after the other."""

    def __init__(self, spark: SparkSession, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.spark, self.root, self._patch = spark, root, patch
        self.folder = root / "in"
        self.folder.mkdir()
        self.format, self.options, self.columns = "json", "", "time TIMESTAMP, id BIGINT"
        self.engine: weft.Engine
        self._files = 0

    def write(self, name: str, ids: Sequence[int], *, age_s: int | None = None) -> Path:
        """Write a file of rows whose times are their ids, in seconds; files come in the order of writing."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.format == "parquet":
            times = pa.array([(1_767_225_600 + id) * 1_000_000 for id in ids], pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"time": times, "id": pa.array(ids, pa.int64())}), path)
        else:
            lines = [json.dumps({"time": moment(id), "id": id}) for id in ids]
            path.write_text("".join(f"{line}\n" for line in lines))
        modified = 1_700_000_000 + self._files if age_s is None else 1_700_000_000 - age_s
        self._files += 1
        os.utime(path, (modified, modified))
        return path

    def run(
        self,
        changes: Mapping[int, Change] | None = None,
        *,
        at: str = "batch.begin",
        checkpoint: bool = True,
        files: int = 1,
        flush: bool = True,
    ) -> RowCounts:
        """Read all there is, so many files a batch; at a point of some batches, something happens first."""
        reached: list[str] = []

        def reach(point: str) -> None:
            reached.append(point)
            if point == at:
                (changes or {}).get(reached.count(at) - 1, lambda: None)()

        self._patch.setattr(loop, "reach", reach)
        self.engine = weft.Engine(self.spark)
        self.engine.load(
            f"CREATE STREAM s ({self.columns}) USING {self.format} OPTIONS "
            f"(path '{self.folder}{self.options}', maxFilesPerTrigger '{files}') EVENT TIME time "
            "DELAY '1 hour'; "
            "CREATE QUERY q AS SELECT count(*) AS n, sum(id) AS ids FROM s [RANGE '1 hour'];"
        )
        if checkpoint:
            self.engine.run(checkpoint=self.root / "checkpoint", flush=flush)
        else:
            self.engine.run(quarantine=self.root / "aside")
        return self.engine.clock("s").counts

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user was told."""
        return tuple(notice.words for notice in self.engine.status().streams["s"].notices)

    def totals(self) -> tuple[int, int]:
        """Return how many rows there are in results, and the sum of their ids."""
        (row,) = self.engine.results("q").to_pylist()
        return row["n"], row["ids"]

    def aside(self, folder: str = "checkpoint/quarantine") -> list[tuple[str, str, int, Any]]:
        """Return what the quarantine has: source, reason, batch and record."""
        rows = pq.read_table(self.root / folder).to_pylist()
        return sorted((row["source"], row["reason"], row["batch"], row["row"]) for row in rows)


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return an empty site."""
    return Site(spark, tmp_path, monkeypatch)


def uri(path: Path) -> str:
    """Return a path as Spark names it."""
    return f"file://{path}"


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_file_that_vanishes_before_its_batch_is_planned_is_named(
    site: Site, checkpoint: bool, caplog: pytest.LogCaptureFixture
) -> None:
    site.write("a.json", [1, 2])
    gone = site.write("b.json", [3])
    site.write("c.json", [4])
    # Spark has listed all of them by then.
    with caplog.at_level(logging.WARNING, logger="weft"):
        counts = site.run({0: gone.unlink}, checkpoint=checkpoint)
    assert counts == RowCounts(good=3, missing=1)
    assert counts.read == 3
    assert site.totals() == (3, 7)
    assert site.notices == (f"stream s: file {uri(gone)} {VANISHED}; its rows are missing",)
    folder = "checkpoint/quarantine" if checkpoint else "aside"
    assert site.aside(folder) == [(uri(gone), VANISHED, 1, None)]
    (logged,) = [vars(one) for one in caplog.records if "vanished" in one.getMessage()]
    assert (logged["stream"], logged["batch"], logged["files"]) == ("s", 1, 1)


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_file_that_vanishes_before_it_is_read_is_left_out(site: Site, format: str) -> None:
    site.format = format
    paths = [site.write(f"{number}.{format}", [number]) for number in range(5)]
    counts = site.run({0: lambda: [paths[place].unlink() for place in (1, 3)]}, files=5)
    assert counts == RowCounts(good=3, missing=2)
    assert site.totals() == (3, 6)
    assert site.aside() == [(uri(paths[place]), VANISHED, 0, None) for place in (1, 3)]


def test_a_batch_whose_files_are_all_gone_is_accounted_for(site: Site) -> None:
    first, second = site.write("a.json", [1]), site.write("b.json", [2])
    last = site.write("c.json", [3])
    counts = site.run({0: first.unlink, 1: lambda: None})
    assert counts == RowCounts(good=2, missing=1)
    last.with_name("d.json").write_text("")
    more = site.write("e.json", [5])
    assert site.run({0: more.unlink}, files=9) == RowCounts(good=2, missing=2)
    assert [(source, batch) for source, _, batch, _ in site.aside()] == [(uri(first), 0), (uri(more), 3)]
    assert second.exists()


def test_a_file_that_vanishes_while_the_engine_is_down_is_named_at_the_next_start(site: Site) -> None:
    site.write("a.json", [1])
    gone = site.write("b.json", [2])
    changed = site.write("c.json", [3])

    def die() -> None:
        raise OSError("the power is gone")

    with pytest.raises(EngineError, match="power"):
        site.run({0: die}, files=3)
    gone.unlink()
    changed.write_text(json.dumps({"time": moment(4), "id": 4}))
    counts = site.run(files=3)
    assert counts == RowCounts(good=2, missing=2)
    assert site.totals() == (2, 5)
    assert site.aside() == [(uri(gone), VANISHED, 0, None), (uri(changed), CHANGED, 0, None)]
    # What is committed is not accounted for again.
    changed.unlink()
    assert site.run() == counts


@pytest.mark.parametrize("format", ["json", "parquet"])
@pytest.mark.parametrize("ids", [[7], list(range(1000, 3000))])
def test_a_file_that_is_rewritten_before_it_is_read_is_named(site: Site, format: str, ids: list[int]) -> None:
    site.format = format
    site.write(f"a.{format}", [1])
    changed = site.write(f"b.{format}", list(range(100)))
    site.write(f"c.{format}", [2])
    counts = site.run({0: lambda: site.write(changed.name, ids)}, files=3)
    assert counts.missing == 1
    # The others are read; of a file that has grown, no more than was planned.
    assert counts.good == 3 if len(ids) == 1 else 2 <= counts.good < len(ids)
    told = f"stream s: file {uri(changed)} {CHANGED}; rows may be missing, or read in part"
    assert told in site.notices
    assert (uri(changed), CHANGED, 0, None) in site.aside()


def test_a_file_that_is_rewritten_while_it_is_read_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, gone = site.write("a.json", [1, 2]), site.write("b.json", [3])
    ask = weft.spark.input.unread.FileAccount.missing

    def missing(*given: Any) -> Any:
        changed.write_text(changed.read_text().replace("2", "3"))
        # What was read whole is not missing, whatever becomes of it.
        gone.unlink()
        return ask(*given)

    monkeypatch.setattr(weft.spark.input.unread.FileAccount, "missing", missing)
    assert site.run(files=2) == RowCounts(good=3, missing=1)
    assert site.aside() == [(uri(changed), CHANGED, 0, None)]


def test_a_file_that_was_cut_is_set_aside_once(site: Site) -> None:
    site.format = "parquet"
    site.write("a.parquet", [1])
    cut = site.write("b.parquet", list(range(100)))
    counts = site.run({0: lambda: cut.write_bytes(cut.read_bytes()[:500])}, files=2)
    assert counts == RowCounts(good=1, corrupt=1)
    ((source, reason, _, _),) = site.aside()
    assert (source, reason.partition(":")[0]) == (uri(cut), "cannot be read as parquet")


def test_a_file_that_is_emptied_is_named(site: Site) -> None:
    site.write("a.json", [1])
    emptied = site.write("b.json", [2])
    assert site.run({0: lambda: emptied.write_text("")}) == RowCounts(good=1, missing=1)
    assert site.aside() == [(uri(emptied), CHANGED, 1, None)]


def test_where_spark_is_told_to_skip_what_is_gone_it_counts_all_the_same(
    site: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write("a.json", [1])
    gone = site.write("b.json", [2])
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert site.run({0: gone.unlink}, files=2) == RowCounts(good=1, missing=1)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert site.aside() == [(uri(gone), VANISHED, 0, None)]


ODD_NAMES = ["a b.json", "c%20d.json", "é ü.json", "日本.json", "x+y&z#.json", 'p"r;s=1.json']


def test_names_with_odd_characters_are_the_same_everywhere(site: Site) -> None:
    for number, name in enumerate(ODD_NAMES):
        site.write(name, [number])
    site.write("empty.json", [])
    (site.folder / "_metadata").write_text("no rows")
    # Nothing has happened to any of them.
    assert site.run(files=4, flush=False) == RowCounts(good=len(ODD_NAMES))
    assert site.notices == ()
    odd = [site.write(f"later {name}", [number]) for number, name in enumerate(ODD_NAMES)]
    counts = site.run({0: lambda: [path.unlink() for path in odd[1::2]]}, files=100)
    assert counts == RowCounts(good=len(ODD_NAMES) + len(odd[::2]), missing=len(odd[1::2]))
    assert {source for source, *_ in site.aside()} == {uri(path) for path in odd[1::2]}


def test_files_beside_one_whose_name_reads_like_a_pattern_are_read_once(site: Site) -> None:
    names = ["a.json", "b [1].json", "c{2}.json", "d*.json", "e?.json", "f\\g.json", "h.json"]
    paths = [site.write(name, [number]) for number, name in enumerate(names)]
    assert site.run(files=4) == RowCounts(good=7)
    assert site.totals() == (7, 21)
    site.root = site.root / "other"
    # Without a file that is gone, they are read in another way.
    assert site.run({0: paths[0].unlink}, files=7) == RowCounts(good=6, missing=1)
    assert site.totals() == (6, 21)


@pytest.mark.parametrize("pattern", ["", "/*", "/day=*/*.json"])
def test_files_of_partitions_and_patterns_are_accounted_for(site: Site, pattern: str) -> None:
    site.options = pattern
    if not pattern:
        site.columns += ", day INT"
    paths = [site.write(f"day={day}/{number}.json", [day]) for day in (1, 2) for number in (1, 2)]
    counts = site.run({0: paths[1].unlink, 1: lambda: site.write("day=2/2.json", [9])}, files=2)
    assert counts == RowCounts(good=3, missing=2)
    assert site.aside() == [(uri(paths[1]), VANISHED, 0, None), (uri(paths[3]), CHANGED, 1, None)]


def test_no_more_than_a_few_files_of_a_batch_are_told(site: Site) -> None:
    paths = [site.write(f"{number:02d}.json", [number]) for number in range(14)]
    counts = site.run({0: lambda: [path.unlink() for path in paths[1:]]}, files=14)
    assert counts == RowCounts(good=1, missing=13)
    assert len(site.notices) == 11
    more = "and 3 more files vanished or were changed after they were listed; "
    assert site.notices[-1] == f"stream s: {more}the quarantine names them, if one is kept"
    assert len(site.aside()) == 13


def test_lists_that_spark_has_put_together_tell_each_batch(site: Site) -> None:
    paths = [site.write(f"{number:02d}.json", [number]) for number in range(12)]
    changes = {number - 1: paths[number].unlink for number in (9, 10)}
    assert site.run(changes) == RowCounts(good=10, missing=2)
    assert [(source, batch) for source, _, batch, _ in site.aside()] == [
        (uri(paths[9]), 9), (uri(paths[10]), 10),
    ]  # fmt: skip
    assert list((site.root / "checkpoint/s/spark/sources/0").glob("9.compact"))


def test_files_that_arrive_with_old_times_are_read(site: Site) -> None:
    site.write("a.json", [1])
    assert site.run(flush=False) == RowCounts(good=1)
    # Spark forgets files after a week by the time of the newest, and never lists an older one.
    site.write("b.json", [2], age_s=30 * 86400)
    site.write("c.json", [3], age_s=3 * 365 * 86400)
    assert site.run(flush=False) == RowCounts(good=3)


def test_a_limit_on_the_age_of_files_is_kept_as_declared(site: Site) -> None:
    site.options = "', maxFileAge '7d"
    site.write("a.json", [1])
    site.run(flush=False)
    site.write("b.json", [2], age_s=30 * 86400)
    assert site.run(flush=False) == RowCounts(good=1)


def test_a_dataframe_of_the_users_is_left_alone(site: Site) -> None:
    site.write("a.json", [1])
    gone = site.write("b.json", [2])
    site._patch.setattr(loop, "reach", lambda point: gone.unlink(missing_ok=True))
    reader = site.spark.readStream.schema(site.columns).option("maxFilesPerTrigger", 1)
    engine = weft.Engine(site.spark)
    engine.stream("s", reader.json(str(site.folder)), time="time")
    engine.add("SELECT count(*) AS n FROM s [RANGE '1 hour']", name="q")
    engine.run()
    assert engine.clock("s").counts == RowCounts(good=1)
