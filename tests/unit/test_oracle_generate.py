"""Random cases are reproducible, well formed and nasty enough."""

from hypothesis import HealthCheck, given, settings
from tests.oracle.cases import TIME, Case
from tests.oracle.generate import random_case
from tests.oracle.reference import windows_of
from tests.oracle.spec import WindowSyntax
from tests.oracle.strategies import cases
from tests.oracle.types import Value

SEEDS = range(60)


def _whole(value: Value) -> int:
    assert isinstance(value, int)
    return value


def test_a_seed_gives_one_case_for_ever() -> None:
    for seed in range(5):
        assert repr(random_case(seed)) == repr(random_case(seed))


def test_every_case_has_tables_and_text() -> None:
    for seed in SEEDS:
        case = random_case(seed)
        tables = case.batch_tables()
        assert [table.num_rows for table in tables] == [len(batch) for batch in case.batches]
        for spec in case.specs:
            assert spec.sql("events", TIME) != spec.sql("events", TIME, WindowSyntax.FUNCTION)
        if case.batches[0]:
            assert tables[0].to_pylist()[0].keys() == case.batches[0][0].keys()


def test_cases_cover_what_goes_wrong() -> None:
    drawn = [random_case(seed) for seed in SEEDS]
    runs = [(case, case.expected()) for case in drawn]
    specs = [spec for case in drawn for spec in case.specs]
    times = [_whole(row[TIME]) for _, run in runs for row in run.accepted]
    assert sum(run.counters.late for _, run in runs) > 20
    assert sum(run.counters.no_time for _, run in runs) > 20
    assert any(at < 0 for at in times)
    assert any(len(case.batches) > 3 for case in drawn)
    assert any(spec.emit_empty for spec in specs)
    assert any(spec.having is not None for spec in specs)
    assert any(spec.slide_ms > spec.range_ms for spec in specs)
    assert any(spec.range_ms % spec.slide_ms for spec in specs)
    assert any(spec.offset_ms for spec in specs)
    answers = [answer for case, run in runs for spec in case.specs for answer in run.results(spec.name)]
    assert any(answer.order_sensitive for answer in answers)
    assert len(answers) > 1000


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_every_row_is_counted_in_each_window_that_holds_it(case: Case) -> None:
    run = case.expected()
    for spec in case.specs:
        whole = (
            spec.predicate is None and spec.having is None and spec.limit is None and spec.limit_by is None
        )
        once = not spec.sets and spec.step_ms is None
        if whole and once and spec.aggregates[0].argument is None:
            total = sum(_whole(answer.values[spec.aggregates[0].name]) for answer in run.results(spec.name))
            window = (spec.range_ms, spec.slide_ms, spec.offset_ms)
            held = sum(len(windows_of(_whole(row[TIME]), *window)) for row in run.accepted)
            assert total <= held
            assert total == held or spec.aggregates[0].filter is not None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_every_key_appears_once_per_window(case: Case) -> None:
    run = case.expected()
    for spec in case.specs:
        # A key that a grouping set is without is NULL, as it may be itself.
        names = (
            "window_start",
            "window_end",
            *(key.name for key in spec.keys),
            *(["gid"] if spec.sets else []),
        )
        keys = [repr([answer.values[name] for name in names]) for answer in run.results(spec.name)]
        assert len(keys) == len(set(keys))
