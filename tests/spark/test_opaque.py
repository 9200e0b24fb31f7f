"""Predicates packed into words, and evaluated by value: the rows are the same as in any other plan.

More cases by hand, from the project's folder: `python -m tests.spark.test_opaque FIRST LAST`.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import weft
from tests.oracle.cases import Case
from tests.oracle.compare import assert_same
from tests.oracle.generate_workload import random_workload
from tests.oracle.spec import WindowSyntax
from tests.spark.replay import Player, Replayed, replay
from weft.optimizer import roots, rules
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.spark.job import value_predicates
from weft.spark.job.forms import Forms
from weft.spark.session.local import local_session
from weft.state.report import BatchReport

START = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def in_words(*, by_value: bool, by_driver: bool = False) -> Iterator[None]:
    """Have predicates coded as words however few they are, by Spark or wherever possible by the driver.

    Where Spark does it, they are evaluated once a value if that is asked for and can be.
    """
    with (
        patch.object(roots, "MOST_CELLS", 1),
        patch.object(rules, "_pays", lambda *_: by_value),
        patch.object(Forms, "driver_groups", lambda *_, **__: by_driver),
    ):
        yield


def played(spark: SparkSession, case: Case, sharing: Sharing) -> tuple[Replayed, Player]:
    """Push a case's batches through a pipeline that shares in the given way."""
    player = Player(spark, case, slicing=Slicing.PAIRED, syntax=WindowSyntax.BRACKET)
    player.pipeline.plans.planner.sharing = sharing
    reports = []
    for number, table in enumerate(case.batch_tables()):
        player.before(number)
        reports.append(player.pipeline.process(spark.createDataFrame(table)))
    player.before(len(case.batches))
    reports.append(player.pipeline.finish(spark))
    return Replayed(reports, player.pipeline.clock), player


def check(
    spark: SparkSession, seed: int, sharing: Sharing, by_value: bool, by_driver: bool, most: int = 10
) -> None:
    """Compare rows with the reference's, and counts of failures with those of a plan as usual."""
    case = random_workload(seed, queries=(5, most), calls=seed % 2 == 0)
    expected, usual = case.expected(), replay(spark, case)
    with in_words(by_value=by_value, by_driver=by_driver):
        found, _ = played(spark, case, sharing)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))
        assert found.failures(spec.name) == usual.failures(spec.name), spec.name


WAYS = [
    (sharing, by_value, by_driver)
    for sharing, (by_value, by_driver) in product(
        (Sharing.JOINT, Sharing.UNSHARED), ((False, False), (True, False), (False, True))
    )
]


@pytest.mark.parametrize("seed", [9000, 9001, 9002, 9003, 9004, 9005, 9006, 9007, 9009, 9011, 9014])
def test_words_give_the_reference_answers(spark: SparkSession, seed: int) -> None:
    check(spark, seed, *WAYS[seed % len(WAYS)])


# By value


Named = tuple[datetime, str | None, int]
SCHEMA = "time TIMESTAMP, name STRING, n BIGINT"


def names(several: list[str | None], first: int = 0) -> list[Named]:
    """Return a row a second, each with one of the names in turn, three rows a name."""
    count = 3 * len(several)
    return [(START + timedelta(seconds=first + n), several[n % len(several)], n) for n in range(count)]


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


def picked(name: str | None) -> bool | None:
    """Return what the function says of a name; None where it raises."""
    return int(name[1:]) % 3 == 0 if name is not None and name[1:].isdigit() else None


def test_a_function_is_called_once_a_value_and_its_failures_count_for_each_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    known = [*(f"v{n}" for n in range(20)), "x", None]
    new = [*known, *(f"v{n}" for n in range(30, 36)), "y"]
    batches, source = [names(known), names(new, first=200)], tmp_path / "rows"
    for rows in batches:
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(str(source))
    engine = weft.Engine(spark)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    engine.stream("s", stream, time="time", delay="1 hour", skew=None)
    engine.function("pick", picky(tmp_path / "calls"))
    queries = [engine.add(text, name=f"q{place}") for place, text in enumerate(TEXTS)]
    failures: Counter[str] = Counter()

    def note(_: str, report: BatchReport) -> None:
        failures.update(report.failures)

    with in_words(by_value=True):
        engine.run(on_batch=note)
    calls = (tmp_path / "calls").read_text().split()
    assert sorted(calls) == sorted({str(name) for name in new})
    every = [(name, n) for rows in batches for _, name, n in rows]
    found = [query.results()["n"].to_pylist() for query in queries[:4]]
    assert found == [
        [sum(picked(name) is True for name, _ in every)],
        [sum(n for name, n in every if picked(name) is False and n > 4)],
        [sum((name or "").startswith("v1") or n == 2 for name, n in every)],
        [sum((picked(name) is True and str(name).endswith("2")) or name is None for name, _ in every)],
    ]
    grouped = dict(zip(*(queries[4].results()[one].to_pylist() for one in ("name", "n")), strict=True))
    assert grouped == Counter(name for name, _ in every if name is not None and name[-1] in "345")
    # x and NULL fail in both batches, y in the second: three rows each time.
    assert failures == {"q0": 15, "q1": 15, "q3": 15}


def test_values_beyond_the_limit_are_forgotten_and_known_again(spark: SparkSession, tmp_path: Path) -> None:
    texts = [f"SELECT count(*) AS n FROM s [RANGE '1 hour'] WHERE name LIKE '%{n}'" for n in range(9)]
    source, every = tmp_path / "rows", list[Named]()
    for begin in (0, 4, 9, 2):
        every += names([f"v{n}" for n in range(begin, begin + 8)], 100 * begin)
        some = spark.createDataFrame(every[-24:], SCHEMA)
        some.coalesce(1).write.mode("append").parquet(str(source))
    with in_words(by_value=True), patch.object(value_predicates, "MOST_VALUES", 5):
        engine = weft.Engine(spark)
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
        engine.stream("s", stream, time="time", delay="1 hour", skew=None)
        queries = [engine.add(text, name=f"q{place}") for place, text in enumerate(texts)]
        engine.run()
    found = [query.results()["n"].to_pylist() for query in queries]
    assert found == [[sum(str(name).endswith(str(n)) for _, name, _ in every)] for n in range(9)]


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
