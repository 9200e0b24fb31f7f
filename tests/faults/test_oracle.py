"""The oracle sees every kind of fault in results that are otherwise right."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.faults.events import DELAY_MS, Events, write_files
from tests.faults.oracle import Span, expected, judge
from tests.faults.site import Site
from tests.faults.workload import STANDING, Asked
from weft.storage.container import pack

AUDIT = STANDING[0]


def results(query: Asked, events: pa.Table) -> pa.Table:
    """Return the right results as an engine would write them."""
    rows = expected(query, events)
    moment = pa.timestamp("us", "UTC")
    bounds = {
        name: pa.array([key[place] for key in rows]).cast(moment)
        for place, name in enumerate(("window_start", "window_end"))
    }
    keys = {name: [key[2 + place] for key in rows] for place, name in enumerate(query.keys)}
    values = {name: [value[place] for value in rows.values()] for place, name in enumerate(query.outputs)}
    return pa.table({**bounds, **keys, **values})


def write(out: Path, query: Asked, rows: pa.Table, name: str = "weft-000000000-000000000.parquet") -> None:
    (out / query.name).mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, out / query.name / name)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site.made(tmp_path / "site")
    write_files(made.input, Events(seed=3), 12)
    for query in made.queries:
        write(made.out, query, results(query, made.events()))
    return made


def test_right_results_are_exact(site: Site) -> None:
    verdict = site.judged()
    assert verdict.exact, verdict


def test_a_window_is_half_open_and_ends_at_multiples_of_its_slide() -> None:
    query = Asked(name="q", range_ms=3_000, slide_ms=2_000, outputs=("n", "total"))
    times = pa.array([0, 999_999, 1_000_000, 2_000_000]).cast(pa.timestamp("us", "UTC"))
    events = (
        Events(seed=0, rows=4)
        .next_file()
        .set_column(0, "time", times)
        .set_column(2, "seq", pa.array([1, 2, 4, 8]))
    )
    #   0 s   1 s   2 s   3 s   4 s
    #   1 2   4     8
    # [-------)                          ends at 2 s
    #       [-----------------)          ends at 4 s
    assert expected(query, events) == {
        (-1_000_000, 2_000_000): (3, 7),
        (1_000_000, 4_000_000): (2, 12),
    }


def without_first_row(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def with_first_row_again(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def one_event_fewer(rows: pa.Table) -> pa.Table:
    marks = rows["marks"].to_pylist()
    lowest = marks[0] & -marks[0]
    return rows.set_column(
        rows.column_names.index("marks"), "marks", pa.array([marks[0] - lowest, *marks[1:]])
    )


def one_event_again(rows: pa.Table) -> pa.Table:
    marks = rows["marks"].to_pylist()
    lowest = marks[0] & -marks[0]
    return rows.set_column(
        rows.column_names.index("marks"), "marks", pa.array([marks[0] + lowest, *marks[1:]])
    )


def one_second_later(rows: pa.Table) -> pa.Table:
    later = pa.chunked_array(
        [pa.array([one + 1_000_000 for one in rows["window_end"].cast(pa.int64()).to_pylist()])]
    )
    return rows.set_column(1, "window_end", later.cast(pa.timestamp("us", "UTC")))


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (without_first_row, {"missing", "lost"}),
        (with_first_row_again, {"repeated", "twice"}),
        (one_event_fewer, {"wrong", "lost"}),
        (one_event_again, {"wrong", "twice"}),
        (one_second_later, {"missing", "extra"}),
    ],
)
def test_every_kind_of_fault_is_seen(
    site: Site, change: Callable[[pa.Table], pa.Table], seen: set[str]
) -> None:
    write(site.out, AUDIT, change(results(AUDIT, site.events())))
    assert {name for name, count in site.judged().counts.items() if count} == seen


def test_a_file_that_is_there_twice_is_not_forgiven(site: Site) -> None:
    rows = results(AUDIT, site.events())
    write(site.out, AUDIT, rows, "weft-000000001-000000001.parquet")
    verdict = site.judged()
    assert verdict.repeated == rows.num_rows
    assert verdict.twice == site.events().num_rows
    assert not verdict.sound


def test_results_of_a_run_that_goes_on_are_sound_but_not_exact(site: Site) -> None:
    write(site.out, AUDIT, results(AUDIT, site.events()).slice(0, 5))
    verdict = site.judged()
    assert verdict.sound
    assert not verdict.exact


def test_a_query_that_came_later_owes_nothing_before_its_first_window(site: Site) -> None:
    rows = results(AUDIT, site.events())
    first = sorted(rows["window_start"].cast(pa.int64()).to_pylist())[len(rows) // 2]
    kept = rows.filter(pa.array([one >= first for one in rows["window_start"].cast(pa.int64()).to_pylist()]))
    write(site.out, AUDIT, kept)
    verdict = judge([AUDIT], site.events(), site.out, {AUDIT.name: (Span(first=first),)})
    assert (verdict.missing, verdict.extra, verdict.wrong) == (0, 0, 0)
    write(site.out, AUDIT, rows)
    assert judge([AUDIT], site.events(), site.out, {AUDIT.name: (Span(first=first),)}).extra > 0


def test_a_query_that_was_dropped_owes_all_windows_up_to_its_last(site: Site) -> None:
    query = STANDING[2]
    rows = results(query, site.events()).sort_by("window_end")
    write(site.out, query, rows.slice(0, 2))
    ended = {query.name: (Span(ended=True),)}
    assert judge([query], site.events(), site.out, ended).exact
    write(site.out, query, rows.slice(1, 1))
    assert judge([query], site.events(), site.out, ended).missing == 1


def test_a_query_that_ended_owes_what_was_due_and_gives_nothing_later(site: Site) -> None:
    query = STANDING[2]
    rows = results(query, site.events()).sort_by("window_end")
    ends = rows["window_end"].cast(pa.int64()).to_pylist()
    paused = {query.name: (Span(ended=True, owed=ends[2], allowed=ends[3]),)}
    for given, missing, extra in ((0, 3, 0), (2, 1, 0), (3, 0, 0), (4, 0, 0), (5, 0, 1)):
        write(site.out, query, rows.slice(0, given))
        verdict = judge([query], site.events(), site.out, paused)
        assert (verdict.missing, verdict.extra) == (missing, extra), given


def test_a_query_that_rested_owes_nothing_in_between(site: Site) -> None:
    query = STANDING[2]
    rows = results(query, site.events()).sort_by("window_end")
    starts, ends = (rows[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end"))
    rested = {query.name: (Span(ended=True, owed=ends[0], allowed=ends[0]), Span(first=starts[3]))}
    write(site.out, query, pa.concat_tables([rows.slice(0, 1), rows.slice(3)]))
    assert judge([query], site.events(), site.out, rested).exact
    write(site.out, query, rows.slice(3))
    assert judge([query], site.events(), site.out, rested).missing == 1
    write(site.out, query, rows)
    assert judge([query], site.events(), site.out, rested).extra == 2


def test_disorder_stays_within_the_delay(tmp_path: Path) -> None:
    events, newest = Events(seed=5), 0
    for _ in range(50):
        times = events.next_file()["time"].cast(pa.int64()).to_pylist()
        assert min(times) >= newest - DELAY_MS * 1000
        newest = max(newest, *times)


def test_the_watermark_goes_by_the_lists_that_batches_read(site: Site) -> None:
    stream = site.checkpoint / "events"
    for folder in ("commits", "spark/offsets", "spark/sources/0"):
        (stream / folder).mkdir(parents=True)
    assert site.watermark() == 0
    files = sorted(path.name for path in site.input.iterdir())
    # The engine that made list 1 was killed before its batch began: the next reads lists 1 and 2.
    for number, batch in enumerate((0, 1, 1)):
        lists = json.dumps({"path": f"file:///{files[number]}", "batchId": number})
        (stream / f"spark/sources/0/{number}").write_text(f"v1\n{lists}")
        (stream / f"spark/offsets/{batch}").write_text(f'v1\n{{}}\n{{"logOffset":{number}}}')
    for batch, newest in ((0, 1), (1, 3)):
        (stream / f"commits/{batch:09d}").write_bytes(pack({"commit": json.dumps({"batch": batch}).encode()}))
        times = [pq.read_table(site.input / name)["time"].cast("int64") for name in files[:newest]]
        assert site.watermark() == max(pc.max(some).as_py() for some in times) - DELAY_MS * 1000
