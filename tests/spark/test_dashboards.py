"""`weft bench dashboards` on few flights: its contenders answer alike, and its verdict can fail."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from weft.bench import dashboards
from weft.bench.contenders import ordinary, run_stream
from weft.bench.dashboards import read_dashboards, sample
from weft.bench.duck import Duck, duck_sql
from weft.bench.equality import difference, read_rows
from weft.bench.flights import make_flights, make_tables
from weft.bench.runs import Input
from weft.cli import bench
from weft.query.logical import LogicalQuery

pytestmark = pytest.mark.spark
ROWS = 2_000


class Setting(NamedTuple):
    given: Input
    duck: Duck


@pytest.fixture
def setting(spark: Any, tmp_path: Path) -> Setting:
    dataset = make_flights(tmp_path / "data", rows=ROWS, files=2)
    tables = make_tables(tmp_path / "data")
    held = {table.name: table.read(spark) for table in tables}
    given = Input(spark=spark, dataset=dataset, files_per_trigger=1, tables=tables, held=held)
    return Setting(given, Duck(dataset, tables, threads=1))


def expected(setting: Setting, query: LogicalQuery, folder: Path) -> Any:
    path = folder / "expected.parquet"
    setting.duck.write(duck_sql(query, time="time"), path)
    return read_rows(path)


def test_ordinary_spark_answers_as_duckdb_does(setting: Setting, tmp_path: Path) -> None:
    rows = setting.given.dataset.read(setting.given.spark)
    for query in sample(read_dashboards().queries, 20):
        found = ordinary(rows, query, setting.given.held).toArrow()
        assert difference(query.name, found, expected(setting, query, tmp_path)) is None


def test_an_ordinary_stream_writes_the_windows_that_are_closed(setting: Setting, tmp_path: Path) -> None:
    [query] = [one for one in read_dashboards().queries if one.name == "departures_by_origin"]
    seconds, batch_s = run_stream(setting.given, query, tmp_path / "stream")
    found = read_rows(tmp_path / "stream" / "out")
    whole = expected(setting, query, tmp_path)
    # The newest flight keeps its own windows open, at each airport.
    assert whole.num_rows - 3 <= found.num_rows < whole.num_rows
    assert batch_s
    assert sum(batch_s) < seconds


def few(tmp_path: Path, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run the command over few flights; return its exit code, its figures and what it printed."""
    found = tmp_path / "figures.json"
    asked = (
        "dashboards -n 2 --rows 1000 --batches 1 --live-rows 150 --live-batches 4 --repeats 1 --warmups 0 "
        f"--measured 1 --streaming 1 --no-plot --data {tmp_path / 'data'} --json {found}"
    )
    outcome = CliRunner().invoke(bench.app, [*asked.split(), *words])
    figures = json.loads(found.read_text())
    return outcome.exit_code, figures if isinstance(figures, list) else [figures], outcome.output


def test_the_bench_measures_and_compares(spark: Any, tmp_path: Path) -> None:
    code, figures, printed = few(tmp_path)
    assert code == 0, printed
    assert [(one["mode"], one["queries"]) for one in figures] == [("replay", 2), ("live", 2)]
    assert all(one["rows_equal"] for one in figures)
    assert figures[0]["rows"] == 1000
    assert figures[1]["rows"] == 600
    results = figures[0]["results"]
    assert (
        0
        < results["Weft"]
        <= results["Weft, HAVING keeps all rows"]
        == results["Weft, no HAVING or arithmetic"]
    )
    stages = "register, plan, spark, finals, commit, the rest"
    assert set(figures[0]["stages_s"]["Weft"]) >= set(stages.split(", "))
    assert {"DuckDB, one by one", "Spark batch, one by one", "bare scan"} < set(figures[0]["seconds"])
    assert figures[1]["ratio_of_weft_to"]["one Spark streaming query"] > 0
    assert "rows equal DuckDB's" in printed


def test_a_difference_is_told_and_fails_the_command(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = "SELECT origin, count(*) + 1 AS flights FROM flights [RANGE '30 min'] GROUP BY origin"
    wrong = {"departures_by_origin": asked}
    monkeypatch.setattr(dashboards, "as_written", lambda query: wrong.get(query.name, query.text))
    code, figures, printed = few(tmp_path, "--mode", "replay", "--no-variants", "--streaming", "0")
    assert code == 1
    assert not figures[0]["rows_equal"]
    assert "departures_by_origin: flights is" in printed
