"""Sketches on Spark: both forms of a job make the same ones, and answers are within their errors."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from weft.spark.job.forms import Forms

ROWS, DEVIATION, TRACKED = 20_000, 0.05, 40
COUNTED = ("x", "s", "d", "m", "time")
"""Columns of different types."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    chance = np.random.default_rng(3)
    x = chance.zipf(1.3, ROWS) % 3_000
    times = 1_700_000_000_000_000 + np.sort(chance.integers(0, 1_200, ROWS)) * 1_000_000
    return pa.table({
        "time": pa.array(times, pa.timestamp("us", "UTC")),
        "k": pa.array(chance.integers(0, 3, ROWS)),
        "x": pa.array(x, mask=x % 17 == 0),
        "s": pa.array([f"s{value}" for value in x]),
        "d": pa.array(np.where(x % 5 == 0, -0.0, x / 7)),
        "m": pa.array(x).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
    })  # fmt: skip


def answers(
    spark: SparkSession, rows: pa.Table, folder: Path, queries: dict[str, str], *, by: str = "k"
) -> dict[str, list[dict[str, object]]]:
    """Return the results of queries over all rows, in three batches."""
    engine = weft.Engine(spark)
    for number in range(3):
        pq.write_table(rows.slice(number * ROWS // 3, ROWS // 3 + 1), folder / f"{number}.parquet")
    schema = "time timestamp, k bigint, x bigint, s string, d double, m decimal(21,2)"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    engine.stream("rows", reader.parquet(str(folder)), time="time")
    for name, select in queries.items():
        text = f"SELECT k, {select} FROM rows [RANGE '10 min' SLIDE '5 min'] GROUP BY {by}"
        engine.add(text, name=name)
    engine.run()
    return {
        name: engine.results(name).sort_by([("window_end", "ascending"), ("k", "ascending")]).to_pylist()
        for name in queries
    }


def test_distinct_values_of_every_type_are_counted(
    spark: SparkSession, rows: pa.Table, tmp_path: Path
) -> None:
    queries = {of: f"approx_count_distinct({of}) AS a, count(DISTINCT {of}) AS e" for of in COUNTED}
    found = answers(spark, rows, tmp_path, queries)
    for name, results in found.items():
        assert results, name
        errors = [abs(row["a"] - row["e"]) / row["e"] for row in results]  # type: ignore[operator]
        assert max(errors) <= 3 * DEVIATION, name
        assert np.mean(errors) <= DEVIATION, name


def test_spark_and_the_driver_make_the_same_sketches(
    spark: SparkSession, rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {
        "count": "approx_count_distinct(x, 0.1) AS a",
        "top": f"approx_top_k(s, 3, {TRACKED}) AS a",
        "all": "approx_percentile(d, array(0.1, 0.9)) AS a, approx_percentile(time, 0.5) AS b",
    }
    found = []
    for by_driver in (True, False):
        monkeypatch.setattr(Forms, "driver_groups", lambda *_, by_driver=by_driver, **__: by_driver)
        folder = tmp_path / str(by_driver)
        folder.mkdir()
        found.append(answers(spark, rows, folder, queries))
    assert all(found[0].values())
    assert found[0] == found[1]


def test_sketches_of_fewer_keys_are_those_of_all_their_rows(
    spark: SparkSession, rows: pa.Table, tmp_path: Path
) -> None:
    # There are fewer different values than samples and lists of frequent values keep, so these are exact.
    queries = {
        "counted": "approx_count_distinct(x) AS a, count(DISTINCT x) AS e",
        "middle": "approx_percentile(x, 0.5) AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS e",
        "frequent": "approx_top_k(x, 3) AS a, top_k(x, 3) AS e",
    }
    found = answers(spark, rows, tmp_path, queries, by="ROLLUP(k)")
    for results in found.values():
        assert {row["k"] for row in results} == {None, 0, 1, 2}
    assert all(abs(row["a"] - row["e"]) <= 3 * DEVIATION * row["e"] for row in found["counted"])  # type: ignore[operator]
    assert [row["a"] for row in found["middle"]] == [row["e"] for row in found["middle"]]
    listed = [[tuple(item.values()) for item in row[of]] for of in "ae" for row in found["frequent"]]  # type: ignore[attr-defined]
    half = len(listed) // 2
    assert listed[:half] == listed[half:]
