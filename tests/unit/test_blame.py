"""Queries whose job cannot be made, or fails: they are found, and the others go on."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from tests.unit.java_samples import failed_job, raised_in_worker, text_of_job
from tests.unit.language_samples import query
from tests.unit.pipeline_samples import MS, Batch, PlainJob, Row, asked, plain_pipeline, process, results

from weft.durability.checkpoint import Checkpoint
from weft.durability.ledger import Ledger, registered
from weft.durability.registry import Registry
from weft.errors import EngineError, SourceError
from weft.expression import Slot, SlotKind
from weft.finals import answering
from weft.finals.selecting import ReadRows, Selected, select
from weft.notices import Failure, Notice, NoticeKind
from weft.optimizer.plan import SharedPlan
from weft.query.logical import LogicalQuery
from weft.service.running_stream import try_out
from weft.spark.session.troubles import culprits, failure
from weft.state.report import BatchReport
from weft.storage import LocalFolder
from weft.stream import loop
from weft.stream import pipeline as pipeline_module
from weft.stream import plan_in_effect as plan_module
from weft.stream.loop import find_culprits
from weft.stream.pipeline import Pipeline, restore
from weft.types import BIGINT

GOOD = asked("good", ("vol > 0", lambda row: True), (20, 5))
KEYED = asked("keyed", ("vol > 1", lambda row: True), (10, 5), keyed=True)
BAD = asked("bad", ("n > 7", lambda row: False), (20, 5))
WORSE = asked("worse", ("n > 9", lambda row: False), (30, 5), keyed=True)
EVERYONE = (GOOD, BAD, KEYED, WORSE)
CALLING = asked("calling", ("midcap(vol)", lambda row: True), (20, 5))
BAD_CALL = asked("bad", ("midcap(n)", lambda row: False), (20, 5))
"""Spark may refuse these: functions are registered."""


class OwnError(Exception):
    """What a registered function may raise."""


class Picky(PlainJob):
    """A job that cannot be made if any predicate reads n."""

    def __init__(self, plan: SharedPlan, *others: Any) -> None:
        for relation in plan.relations:
            for predicate in relation.predicates:
                if "'n'" in repr(predicate):
                    raise OwnError("no columns, please")
        super().__init__(plan, *others)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pipeline]:
    """Return what makes a pipeline of some queries; two of them have no job."""

    def made(*queries: Any, **options: Any) -> Pipeline:
        pipeline = plain_pipeline(monkeypatch, **options)
        monkeypatch.setattr(plan_module, "BatchJob", Picky)
        monkeypatch.setattr(loop, "utc", lambda session: nullcontext())
        for one in queries:
            pipeline.add(one.logical())
        return pipeline

    return made


CUT = Notice(kind=NoticeKind.FILE_SET_ASIDE, stream="trades", subject="a.json", count=3, about="is cut")


def batch(*times: int) -> list[Row]:
    return [Row(time * MS, symbol, 2, 1) for time in times for symbol in ("a", "b")]


# Finding them


def test_whatever_a_function_raises_its_queries_are_found(make: Callable[..., Pipeline]) -> None:
    pipeline, rows = make(*EVERYONE), Batch(batch(1))
    with pytest.raises(OwnError) as caught:
        process(pipeline, rows.rows)
    assert pipeline.clock.newest is None
    found = find_culprits(pipeline, rows, caught.value)  # type: ignore[arg-type]
    assert found == dict.fromkeys(
        ("bad", "worse"), Failure(kind="OwnError", text="OwnError: no columns, please")
    )
    for name in found:
        pipeline.remove(name)
    reports = [process(pipeline, batch(1)), process(pipeline, batch(12))]
    assert results(reports, "good") == [((5 * MS, None), 4), ((10 * MS, None), 4)]
    assert sorted(key for key, _ in results(reports, "keyed")) == [
        (end * MS, symbol) for end in (5, 10) for symbol in ("a", "b")
    ]


def test_what_fails_without_queries_is_nobodys_fault() -> None:
    queries = [one.logical() for one in EVERYONE]

    def gone(some: Sequence[LogicalQuery]) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    assert culprits(queries, gone, OwnError()) == {}
    tried: list[int] = []

    def going(some: Sequence[LogicalQuery]) -> None:
        tried.append(len(some))
        if len(tried) > 1:
            gone(some)

    # Spark was there at first, and then it was not.
    assert culprits(queries, going, OwnError()) == {}
    assert tried == [0, 4]


def at_fault(*names: str, raises: Exception) -> Callable[[Sequence[LogicalQuery]], None]:
    """Return a trial that fails with some queries."""

    def trial(some: Sequence[LogicalQuery]) -> None:
        if any(query.name in names for query in some):
            raise raises

    return trial


def test_all_queries_at_fault_are_found() -> None:
    queries = [one.logical() for one in EVERYONE]
    trial = at_fault("bad", "worse", raises=raised_in_worker("ValueError: 13"))
    assert culprits(queries, trial, OwnError()) == dict.fromkeys(
        ("bad", "worse"), Failure(kind="ValueError", text="ValueError: 13")
    )
    everyone = at_fault(*(one.name for one in queries), raises=OwnError("no"))
    assert list(culprits(queries, everyone, OwnError())) == ["good", "bad", "keyed", "worse"]


FULL = failed_job("java.io.IOException", "No space left on device")


def test_what_no_query_can_cause_is_not_even_tried() -> None:
    def never(some: Sequence[LogicalQuery]) -> None:
        raise AssertionError("tried")

    assert culprits([GOOD.logical()], never, FULL) == {}


def test_who_fails_alone_in_a_way_that_no_query_can_is_not_blamed() -> None:
    trial = at_fault("bad", raises=FULL)
    assert culprits([one.logical() for one in EVERYONE], trial, OwnError()) == {}


@pytest.mark.parametrize("queries", [(BAD,), EVERYONE], ids=["alone", "among others"])
def test_what_does_not_come_again_is_nobodys_fault(queries: Sequence[Any]) -> None:
    assert (
        culprits([one.logical() for one in queries], lambda some: None, raised_in_worker("ValueError")) == {}
    )


def test_what_comes_without_the_query_too_is_not_its_fault() -> None:
    queries = [one.logical() for one in EVERYONE]
    tried: list[list[str]] = []

    def trial(some: Sequence[LogicalQuery]) -> None:
        names = [query.name for query in some]
        tried.append(names)
        # The two good ones are at fault together, and nobody finds that out by halves.
        if "bad" in names or {"good", "keyed"} <= set(names):
            raise OwnError("no")

    assert culprits(queries, trial, OwnError("no")) == {}
    assert tried[-1] == ["good", "keyed", "worse"]


def test_a_table_that_cannot_be_read_is_told_as_it_is(make: Callable[..., Pipeline]) -> None:
    def unreadable(some: Sequence[LogicalQuery]) -> None:
        if some:
            raise SourceError("table close cannot be read")

    with pytest.raises(SourceError, match="table close"):
        culprits([GOOD.logical()], unreadable, OwnError())
    assert find_culprits(make(BAD), Batch([]), SourceError("table close cannot be read")) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [ValueError("somewhere else"), PySparkException("only once")])
def test_a_query_that_stands_alone_is_blamed_only_if_it_fails_again(
    make: Callable[..., Pipeline], error: Exception
) -> None:
    rows: Any = Batch(batch(1))
    assert find_culprits(make(GOOD), rows, error) == {}


def test_a_live_query_is_refused_whatever_its_function_raises(make: Callable[..., Pipeline]) -> None:
    class Session:
        def createDataFrame(self, rows: list[object], schema: str) -> Batch:
            return Batch([])

    session: Any = Session()
    pipeline = make(GOOD)
    refused = try_out(pipeline, [BAD_CALL.logical(), CALLING.logical()], session)
    said = "query bad cannot be run: OwnError: no columns, please"
    assert {name: str(error) for name, error in refused.items()} == {"bad": said}
    assert isinstance(refused["bad"], EngineError)


def test_queries_are_looked_at_in_one_job_that_shares_what_it_can(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it fails, halves are looked at; a stop ends that."""
    pipeline, jobs = make(GOOD), list[tuple[list[str], bool]]()
    job_of = pipeline.plans.job_of

    def noted(queries: Sequence[LogicalQuery], *, shared: bool = False) -> object:
        jobs.append(([one.name for one in queries], shared))
        return job_of(queries, shared=shared)

    monkeypatch.setattr(pipeline.plans, "job_of", noted)
    session: Any = SimpleNamespace(createDataFrame=lambda rows, schema: Batch([]))
    several = [asked(name, ("midcap(vol)", bool), (10, 5)).logical() for name in "abcd"]
    assert try_out(pipeline, several, session) == {}
    assert jobs == [(["a", "b", "c", "d"], True)]
    jobs.clear()
    assert list(try_out(pipeline, [*several[:3], BAD_CALL.logical()], session)) == ["bad"]
    assert [names for names, _ in jobs] == [
        ["a", "b", "c", "bad"], ["a", "b"], ["c", "bad"], ["c"], ["bad"],
    ]  # fmt: skip
    jobs.clear()
    left = iter([False])
    assert try_out(pipeline, [*several, BAD_CALL.logical()], session, halted=lambda: next(left, True)) == {}
    assert len(jobs) == 1


def test_what_the_binder_has_checked_needs_no_job(make: Callable[..., Pipeline]) -> None:
    pipeline, no_session = make(GOOD), SimpleNamespace()
    known = [
        "vol > 5 AND symbol LIKE 'a%'", "symbol RLIKE '^a+$'", "price * 2 > vol OR n IN (1, 2, 3)",
        "date_trunc('hour', time) > day", "CASE WHEN ok THEN fee ELSE 1 END / n > 2",
    ]  # fmt: skip
    queries = [asked(f"q{at}", (text, bool), (10, 5)).logical() for at, text in enumerate(known)]
    assert try_out(pipeline, queries, no_session) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(vol) AS v FROM trades [RANGE '5 ms'] WHERE midcap(vol)",
        "SELECT sum(CASE WHEN midcap(vol) THEN 1 END) AS v FROM trades [RANGE '5 ms']",
        "SELECT midcap(vol) AS k, count(*) AS v FROM trades [RANGE '5 ms'] GROUP BY midcap(vol)",
        "SELECT count(*) AS v FROM trades [RANGE '5 ms'] JOIN close ON trades.symbol = close.symbol",
        # Only Java reads this pattern as Spark does.
        r"SELECT count(*) AS v FROM trades [RANGE '5 ms'] WHERE symbol RLIKE r'\p{Lu}+'",
        # Who knows what Spark makes of so much?
        f"SELECT max(greatest({', '.join(f'n + {at}' for at in range(300))})) AS v FROM trades [RANGE '5 s']",
    ],
    ids=["predicate", "aggregate", "key", "table", "pattern", "size"],
)
def test_what_spark_may_refuse_is_tried(make: Callable[..., Pipeline], text: str) -> None:
    assert not make(GOOD).plans.computes(query(text))


def test_a_live_query_is_not_blamed_for_a_full_disk(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, session = make(GOOD), SimpleNamespace(createDataFrame=lambda rows, schema: Batch([]))

    def full(*_: object) -> None:
        raise FULL

    monkeypatch.setattr(PlainJob, "run", full)
    refused = try_out(pipeline, [CALLING.logical(), BAD_CALL.logical()], session)  # type: ignore[arg-type]
    # It would be the same for each: nothing is gained by looking for one at fault.
    assert list(refused) == ["calling", "bad"]
    assert str(refused["calling"]).startswith("query calling cannot be tried out: a disk is full")
    assert str(refused["calling"]).endswith("and try again")


# With files that cannot be read


class Damaged(NamedTuple):
    """Rows of which a file cannot be read: not at all, or not its column vol."""

    rows: Sequence[Row]
    only_vol: bool
    sparkSession: None = None


@pytest.mark.parametrize("only_vol", [False, True], ids=["damaged", "retyped"])
@pytest.mark.parametrize("raises", [OwnError, PySparkException])
def test_who_fails_beside_a_damaged_file_fails_alone(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch, only_vol: bool, raises: type[Exception]
) -> None:
    looked: list[Any] = []

    class Reading(PlainJob):
        def run(self, batch: Any, bounds: Any) -> list[Row]:
            read = "".join(repr(one) for relation in self.relations for one in relation.predicates)
            if raises is OwnError and "'n'" in read:
                raise OwnError("not this one")
            if isinstance(batch, Damaged) and ("'vol'" in read or not batch.only_vol):
                raise PySparkException("cannot be read")
            if "'n'" in read:
                raise raises("not this one")
            return super().run(batch, bounds)

    def readable(damaged: Any, stream: object) -> tuple[Any, list[Any]]:
        looked.append(damaged)
        if not isinstance(damaged, Damaged):
            return damaged, []
        return Batch(damaged.rows), [SimpleNamespace(rows=3, notice=lambda stream: CUT)]

    pipeline = make(*EVERYONE)
    monkeypatch.setattr(plan_module, "BatchJob", Reading)
    for module in (pipeline_module, loop):
        monkeypatch.setattr(module, "readable", readable)
    rows: Any = Damaged(batch(1), only_vol)
    with pytest.raises(raises, match="not this one") as caught:
        pipeline.process(rows)
    looked.clear()
    found = find_culprits(pipeline, rows, caught.value)
    assert found == {name: failure(raises("not this one")) for name in ("bad", "worse")}
    assert looked == [rows]
    for name in found:
        pipeline.remove(name)
    # The file is counted and told by whoever processes the batch without them.
    report = pipeline.process(rows)
    assert (report.counts.good, report.counts.corrupt, len(report.notices)) == (2, 3, 1)
    reports = [report, process(pipeline, batch(12))]
    assert results(reports, "good") == [((5 * MS, None), 4), ((10 * MS, None), 4)]


def test_files_are_not_looked_at_where_only_a_function_fails(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    def readable(*_: object) -> Any:
        raise AssertionError("a scan for nothing")

    monkeypatch.setattr(loop, "readable", readable)
    rows: Any = Batch(batch(1))
    assert list(find_culprits(make(*EVERYONE), rows, OwnError())) == ["bad", "worse"]


# Without a batch


@pytest.mark.parametrize("queries", [EVERYONE, (BAD,)], ids=["some", "all"])
def test_an_end_without_any_batch_is_no_error(make: Callable[..., Pipeline], queries: Sequence[Any]) -> None:
    spark: Any = None
    report = make(*queries).finish(spark)
    assert (report.results, report.broken) == ({}, {})


def test_after_a_restart_only_the_query_at_fault_is_lost(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """BAD ran before, when its function still took columns; WORSE is new."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    checkpoint = Checkpoint(LocalFolder(tmp_path))
    pipeline = make(GOOD, BAD, KEYED)
    monkeypatch.setattr(plan_module, "BatchJob", PlainJob)
    registry = Registry()
    for live in pipeline.queries.values():
        registry.put(registered(live, commit=0, added_live=False))
    ledger = Ledger(registry=registry, checkpoint=checkpoint)
    first = process(pipeline, batch(1, 12))
    ledger.commit(pipeline.outcome(first), batch=0)

    recovered = checkpoint.recover()
    assert recovered is not None
    again = make(*EVERYONE)
    running = {name: live.query for name, live in again.queries.items()}
    restore(again, running, recovered)
    # They are there until a batch tells what is wrong with them.
    assert list(again.queries) == ["good", "bad", "keyed", "worse"]
    assert {one.query.name for one in again.plan.answers} == {"good", "keyed"}
    with pytest.raises(OwnError) as caught:
        process(again, batch(23))
    rows: Any = Batch(batch(23))
    for name in find_culprits(again, rows, caught.value):
        again.remove(name)
    assert list(again.queries) == ["good", "keyed"]
    reports = [process(again, batch(23)), again.finish(rows.sparkSession)]

    alone = make(GOOD, KEYED)
    wanted = [process(alone, batch(1, 12)), process(alone, batch(23)), alone.finish(rows.sparkSession)]
    for name in ("good", "keyed"):
        assert results([first, *reports], name) == results(wanted, name)
        assert results(reports, name)


def test_windows_of_a_silent_stream_close_though_a_query_has_no_job(make: Callable[..., Pipeline]) -> None:
    spark: Any = None
    pipeline = make(GOOD, delay_ms=100)
    process(pipeline, batch(1, 12))
    # As after a restart.
    pipeline.add(BAD.logical())
    report = pipeline.idle(spark)
    assert [end // MS for (end, _), _ in results([report], "good")] == [5, 10]
    assert list(pipeline.queries) == ["good", "bad"]


# In answers


def test_one_querys_results_that_cannot_be_computed_are_not_anothers(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [asked(f"q{most}", (f"vol < {most}", lambda row: True), (20, 5)) for most in (2, 3, 4, 5)]
    pipeline = make(*queries)

    def picky(read: ReadRows, selected: Selected) -> None:
        if 30 in read.column(Slot(SlotKind.AGGREGATE, 0, BIGINT)).to_pylist():
            raise OwnError("not this one")
        select(read, selected)

    monkeypatch.setattr(answering, "select", picky)
    rows = [Row(MS, "a", 1, 1), *[Row(MS, "a", 4, 1)] * 2, *[Row(MS, "a", 3, 1)] * 7, Row(12 * MS, "a", 9, 1)]
    report = process(pipeline, rows)
    assert report.broken == {"q5": Failure(kind="OwnError", text="OwnError: not this one")}
    assert {name: [value for _, value in results([report], name)] for name in ("q2", "q3", "q4")} == {
        "q2": [1, 1], "q3": [1, 1], "q4": [22, 22],
    }  # fmt: skip
    assert list(pipeline.queries) == ["q2", "q3", "q4"]


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("gone"), OSError("disk full"), MemoryError(), FULL, text_of_job("X: no")]
)
def test_no_query_fails_when_spark_or_the_machine_does(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    pipeline = make(GOOD)

    def gone(*_: object) -> BatchReport:
        raise error

    monkeypatch.setattr(answering, "select", gone)
    with pytest.raises(type(error)):
        process(pipeline, batch(1, 12))
    assert list(pipeline.queries) == ["good"]


def test_results_that_could_not_be_computed_only_once_are_nobodys_fault(
    make: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, failures = make(GOOD), [OwnError("once")]

    def picky(read: ReadRows, selected: Selected) -> None:
        if failures:
            raise failures.pop()
        select(read, selected)

    monkeypatch.setattr(answering, "select", picky)
    with pytest.raises(OwnError, match="once"):
        process(pipeline, batch(1, 12))
    assert list(pipeline.queries) == ["good"]
