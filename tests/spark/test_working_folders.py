"""Folders that a run is given: relative ones are those of Python, and a file is none."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, counted, stream, windows
from weft.errors import EngineError


def test_relative_places_are_those_of_python_and_stay_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook that goes from project to project: notes of one are not taken for another's."""
    for name in ("one", "two"):
        project = tmp_path / name
        project.mkdir()
        monkeypatch.chdir(project)
        feed = Feed(project / "trades")
        feed.at(1, 12)
        engine = weft.Engine(spark)
        stream(engine, spark, feed.folder)
        engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
        engine.start(checkpoint="state", out="out", late="late", quarantine="bad", keep=False)
        try:
            engine.process_available()
            monkeypatch.chdir(tmp_path)
            feed.at(3, 23)
            engine.process_available()
        finally:
            engine.stop()
        assert counted(pq.read_table(project / "out" / "q")) == windows(
            (1, 12, 23), range=10, slide=10, until=23
        )
        assert pq.read_table(project / "late").num_rows == 1
        assert (project / "state" / "trades" / "spark" / "offsets" / "1").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_file_where_a_folder_is_asked_for_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No sink has to be tried again and again for that, and nothing is read meanwhile."""
    feed, file = Feed(tmp_path / "trades"), tmp_path / "file"
    feed.at(1, 12, 23)
    file.write_text("mine")
    for option in ("out", "late", "quarantine"):
        engine = weft.Engine(spark)
        stream(engine, spark, feed.folder)
        engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
        with pytest.raises(EngineError, match=r"file is a file, and no folder; give another --" + option):
            engine.start(checkpoint=tmp_path / "state", keep=False, **{option: file})  # type: ignore[arg-type]
        assert file.read_text() == "mine"
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    engine.run(checkpoint=tmp_path / "state", out=tmp_path / "out", keep=False)
    found = counted(pq.read_table(tmp_path / "out" / "q"))
    assert found == windows((1, 12, 23), range=10, slide=10, until=23)
