"""Engines whose streams and queries have names that lead elsewhere, are hidden, reserved or too long."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, counted, stream, windows
from tests.unit.odd_names import listing, surroundings
from weft.service.status import read_registry
from weft.storage.names import file_name

STREAMS = (
    "..", ".", "../../x", "/", "/etc", "a/b", "_x", "-rf", "id", "id ", "lock.json", "requests", "quarantine",
    "%2E.", "a\nb", "é" * 120, "日本 💧",
)  # fmt: skip
"""Names that a stream may have."""
QUERIES = (
    "a", "A", "_hidden", "_made.json", "by symbol", "a.", "a..", "é", "e.", "日本" * 60, "x" * 128, "id",
    "commits", "0", "é" * 128, "a ", "CON",
)  # fmt: skip
"""Names that a query may have."""
MOMENTS = ((1, 12), (3, 23))
"""The rows of each run; the one at 3 is late."""
GOOD = (1, 12, 23)


def query_of(stream: str) -> str:
    """Return a query over a stream."""
    return f"SELECT count(*) AS n FROM `{stream}` [RANGE '10 s']"


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Return folders for a checkpoint and for results, with much around them."""
    return surroundings(tmp_path / "root")


def test_a_stream_called_like_the_folder_above_leaves_it_alone(
    spark: SparkSession, feed: Feed, places: tuple[Path, Path], tmp_path: Path
) -> None:
    """There is a file `commits`, so it could not start there, and what it had begun was removed."""
    checkpoint, out = places
    before = listing(tmp_path / "root", but=places)
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    stream(engine, spark, feed.folder, name="..")
    engine.add(query_of("trades"), name="q")
    engine.start(checkpoint=checkpoint, out=out)
    try:
        feed.at(1, 12)
        engine.process_available()
        engine.add(query_of(".."), name="above")
        feed.at(23)
        engine.process_available()
    finally:
        engine.stop()
    assert listing(tmp_path / "root", but=places) == before
    assert counted(pq.read_table(out / "q")) == windows((1, 12), range=10, slide=10, until=23)
    assert counted(pq.read_table(out / "above")) == windows((1, 12), range=10, slide=10, until=23)
    assert {one.name: one.stream for one in read_registry(checkpoint)} == {"q": "trades", "above": ".."}


def test_streams_and_queries_may_be_called_anything(
    spark: SparkSession, feed: Feed, places: tuple[Path, Path], tmp_path: Path
) -> None:
    checkpoint, out = places
    kept = tmp_path / "root" / "late"
    kept.mkdir()
    before = listing(tmp_path / "root", but=(*places, kept))
    for moments in MOMENTS:
        feed.at(*moments)
        engine = weft.Engine(spark)
        for name, query in zip(STREAMS, QUERIES, strict=True):
            stream(engine, spark, feed.folder, name=name)
            engine.add(query_of(name), name=query)
        engine.run(checkpoint=checkpoint, out=out, late=kept, keep=False)
    assert listing(tmp_path / "root", but=(*places, kept)) == before
    expected = windows(GOOD, range=10, slide=10, until=23)
    for query in QUERIES:
        assert counted(pq.read_table(out / file_name(query)).sort_by("window_end")) == expected
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == sorted(map(file_name, QUERIES))
    registered = {one.name: one.stream for one in read_registry(checkpoint)}
    assert registered == dict(zip(QUERIES, STREAMS, strict=True))
    (origin,) = kept.iterdir()
    assert {path.name for path in origin.iterdir()} == {f"stream={file_name(name)}" for name in STREAMS}
    assert pq.read_table(kept).num_rows == len(STREAMS)
