"""Predicates packed into words, and evaluated by value: the rows are the same as in any other plan.

More cases by hand, from the project's folder: `python -m tests.spark.test_opaque FIRST LAST`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import weft
from tests.oracle.cases import Case
from tests.oracle.compare import assert_same
from tests.oracle.generate_workload import random_workload
from tests.oracle.spec import WindowSyntax
from tests.spark.replay import Player, Replayed, replay
from weft.optimizer import fragments, values
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.runtime.report import BatchReport
from weft.spark import fragments as coding
from weft.spark import known_values
from weft.spark.session import local_session

START = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def in_words(*, by_value: bool) -> Iterator[None]:
    """Have predicates coded as words however few they are, and evaluated by value wherever that can be."""
    with (
        patch.object(fragments, "MOST_CELLS", 1),
        patch.object(coding, "MOST_CELLS", 1),
        patch.object(values, "_pays", lambda *_: by_value),
    ):
        yield


def played(spark: SparkSession, case: Case, sharing: Sharing) -> tuple[Replayed, Player]:
    """Push a case's batches through a pipeline that shares in the given way."""
    player = Player(spark, case, slicing=Slicing.PAIRED, syntax=WindowSyntax.BRACKET)
    player.pipeline.planner.sharing = sharing
    reports = []
    for number, table in enumerate(case.batch_tables()):
        player.before(number)
        reports.append(player.pipeline.process(spark.createDataFrame(table)))
    player.before(len(case.batches))
    reports.append(player.pipeline.finish(spark))
    return Replayed(reports, player.pipeline.clock), player


def check(spark: SparkSession, seed: int, sharing: Sharing, by_value: bool, most: int = 10) -> None:
    """Compare rows with the reference's, and counts of failures with those of a plan as usual."""
    case = random_workload(seed, queries=(5, most), calls=seed % 2 == 0)
    expected, usual = case.expected(), replay(spark, case)
    with in_words(by_value=by_value):
        found, _ = played(spark, case, sharing)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))
        assert found.failures(spec.name) == usual.failures(spec.name), spec.name


WAYS = list(product((Sharing.JOINT, Sharing.UNSHARED), (False, True)))


@pytest.mark.parametrize("seed", [9000, 9001, 9002, 9003, 9004, 9006, 9007, 9009])
def test_words_give_the_reference_answers(spark: SparkSession, seed: int) -> None:
    check(spark, seed, *WAYS[seed % len(WAYS)])


# By value


def names(spark: SparkSession, several: list[str | None], first: int = 0) -> DataFrame:
    """Return a row a second, each with one of the names in turn."""
    rows = [
        (START + timedelta(seconds=first + n), several[n % len(several)], n) for n in range(3 * len(several))
    ]
    return spark.createDataFrame(rows, "time TIMESTAMP, name STRING, n BIGINT")


def picky(log: Path) -> Callable[..., object]:
    """Return a function that raises for some names and writes down which it was asked about."""

    def pick(name):  # type: ignore[no-untyped-def]
        with open(log, "a") as calls:
            calls.write(f"{name}\n")
        return int(name[1:]) % 3 == 0

    return F.udf(pick, "boolean")


TEXTS = (
    "SELECT count(*) AS n FROM s [RANGE '1 hour'] WHERE pick(name)",
    "SELECT sum(n) AS n FROM s [RANGE '1 hour'] WHERE NOT pick(name) AND n > 4",
    "SELECT count(*) AS n FROM s [RANGE '1 hour'] WHERE name LIKE 'v1%' OR n = 2",
    "SELECT count(*) AS n FROM s [RANGE '1 hour'] WHERE pick(name) AND name LIKE '%2' OR name IS NULL",
    "SELECT name, count(*) AS n FROM s [RANGE '1 hour'] WHERE name RLIKE '[3-5]$' GROUP BY name",
)


def test_a_function_is_called_once_a_value_and_its_failures_count_for_each_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    known = [*(f"v{n}" for n in range(20)), "x", None]
    new = [*known, *(f"v{n}" for n in range(30, 36)), "y"]
    source = tmp_path / "rows"
    names(spark, known).coalesce(1).write.parquet(str(source))
    names(spark, new, first=200).coalesce(1).write.mode("append").parquet(str(source))
    rows = spark.readStream.schema("time TIMESTAMP, name STRING, n BIGINT").option("maxFilesPerTrigger", 1)
    engine = weft.Engine(spark)
    engine.stream("s", rows.parquet(str(source)), time="time", delay="1 hour", skew=None)
    engine.function("pick", picky(tmp_path / "calls"))
    queries = [engine.add(text, name=f"q{place}") for place, text in enumerate(TEXTS)]
    failures: dict[str, int] = {}

    def note(_: str, report: BatchReport) -> None:
        for name, count in report.failures.items():
            failures[name] = failures.get(name, 0) + count

    with in_words(by_value=True):
        engine.run(on_batch=note)
    calls = (tmp_path / "calls").read_text().split()
    assert sorted(calls) == sorted({str(name) for name in new})
    for query in queries:
        plain = engine.run_plain(query.name)
        assert query.results().sort_by("n").equals(plain.sort_by("n"))
    # x and NULL fail in both batches, y in the second: three rows each time.
    assert failures == {"q0": 15, "q1": 15, "q3": 15}


def test_values_beyond_the_limit_are_forgotten_and_known_again(spark: SparkSession) -> None:
    texts = [f"SELECT count(*) AS n FROM s [RANGE '1 hour'] WHERE name LIKE '%{n}'" for n in range(9)]
    batches = [names(spark, [f"v{n}" for n in range(begin, begin + 8)], begin) for begin in (0, 4, 9, 2)]
    rows = batches[0].unionAll(batches[1]).unionAll(batches[2]).unionAll(batches[3])
    with in_words(by_value=True), patch.object(known_values, "MOST_VALUES", 5):
        engine = weft.Engine(spark)
        engine.stream("s", rows, time="time", delay="1 hour", skew=None)
        queries = [engine.add(text, name=f"q{place}") for place, text in enumerate(texts)]
        engine.run()
    for query in queries:
        assert query.results().equals(engine.run_plain(query.name))


def main(first: int, last: int) -> None:
    """Run the seeds from first to last in every way, and go on after a difference."""
    spark = local_session(cores=2, memory="2g", app="weft-seeds")
    for seed in range(first, last + 1):
        try:
            check(spark, seed, *WAYS[seed % len(WAYS)])
            print(f"seed {seed}: equal", flush=True)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
