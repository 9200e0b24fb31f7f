"""The oracle sees every kind of fault in results that are otherwise right."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.faults import damage
from tests.faults.churn import Churn
from tests.faults.damage import Outcome
from tests.faults.events import DELAY_MS, Events, write_files
from tests.faults.oracle import Span, Verdict, expected, judge
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


def set_aside(folder: Path, rows: pa.Table) -> None:
    """Keep rows as an engine would, in place of those that are there."""
    place = folder / "origin=1/stream=events/batch=000000003"
    place.mkdir(parents=True, exist_ok=True)
    texts = [json.dumps({name: row[name] for name in ("producer", "seq")}) for row in rows.to_pylist()]
    pq.write_table(pa.table({"row": pa.array(texts, pa.string())}), place / "part-0.parquet")


@pytest.fixture
def mixed(tmp_path: Path) -> Site:
    """Return a site with late and unusable events, all of them where they belong."""
    made = Site.made(tmp_path / "mixed")
    write_files(made.input, Events(seed=4, late=0.05, unusable=0.05), 24)
    for query in made.queries:
        write(made.out, query, results(query, made.events()))
    set_aside(made.late, made.read().late)
    set_aside(made.quarantine, made.read().unusable)
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


def test_the_watermark_leaves_out_unusable_events_and_lists_that_were_folded(mixed: Site) -> None:
    stream = mixed.checkpoint / "events"
    for folder in ("commits", "spark/offsets", "spark/sources/0"):
        (stream / folder).mkdir(parents=True)
    files = sorted(path.name for path in mixed.input.glob("events-*"))
    lists = [json.dumps({"path": f"file:///{name}", "batchId": number}) for number, name in enumerate(files)]
    (stream / "spark/sources/0/23.compact").write_text("\n".join(["v1", *lists]))
    (stream / "spark/offsets/7").write_text('v1\n{}\n{"logOffset":23}')
    (stream / "commits/000000009").write_bytes(pack({"commit": b'{"batch": 7}'}))
    assert mixed.watermark() == pc.max(mixed.events()["time"].cast("int64")).as_py() - DELAY_MS * 1000


def test_late_and_unusable_events_are_told_by_their_files(mixed: Site) -> None:
    read = mixed.read()
    assert read.late.num_rows > 20
    assert read.unusable["time"].null_count > 10
    assert read.unusable.num_rows > read.unusable["time"].null_count + 10
    assert read.good.num_rows + read.late.num_rows + read.unusable.num_rows == 24 * 60
    verdict = mixed.judged()
    assert verdict.exact, verdict


def test_late_events_are_late_however_files_are_cut_into_batches() -> None:
    events, begin, newest = Events(seed=6, late=0.2), 0, [0] * 8
    for number in range(60):
        times = sorted(events.next_file()["time"].cast(pa.int64()).to_pylist())
        begin = begin or times[-1] // 1_000_000
        late = [time for time in times if time < (begin + number - 10) * 1_000_000]
        assert bool(late) == (number >= 10)
        # Though the seven files before it were in the same batch.
        assert all(time < newest[-8] - DELAY_MS * 1000 for time in late)
        newest.append(times[-1])


def test_a_lost_late_event_is_seen(mixed: Site) -> None:
    set_aside(mixed.late, mixed.read().late.slice(1))
    verdict = mixed.judged()
    assert verdict.counts == Verdict(lost=1).counts
    assert verdict.sound


def test_an_unusable_event_that_is_kept_twice_is_seen(mixed: Site) -> None:
    rows = mixed.read().unusable
    set_aside(mixed.quarantine, pa.concat_tables([rows, rows.slice(2, 1)]))
    verdict = mixed.judged()
    assert verdict.counts == Verdict(twice=1).counts
    assert not verdict.sound


def test_a_good_event_in_quarantine_is_seen(mixed: Site) -> None:
    read = mixed.read()
    set_aside(mixed.quarantine, pa.concat_tables([read.unusable, read.good.slice(5, 1)]))
    assert mixed.judged().counts == Verdict(extra=1).counts


def test_what_spark_has_not_finished_is_not_taken_for_kept(mixed: Site) -> None:
    set_aside(mixed.late / "origin=1/stream=events/batch=000000004/_temporary", mixed.read().late)
    assert mixed.judged().exact


def test_a_late_event_that_counts_is_seen(mixed: Site) -> None:
    read = mixed.read()
    write(mixed.out, AUDIT, results(AUDIT, pa.concat_tables([read.good, read.late.slice(0, 1)])))
    verdict = mixed.judged()
    assert verdict.wrong + verdict.extra > 0


@pytest.mark.parametrize(
    ("file", "said", "outcome"),
    [
        ("events/commits/000000007", "/a/events/commits/000000007 is damaged", Outcome.REFUSED),
        ("events/commits/000000007", "commit 000000007 is missing", Outcome.REFUSED),
        ("events/commits/000000007", "Traceback …\n…/events/commits/000000007", Outcome.BAD),
        ("events/commits/000000007", "a file is damaged", Outcome.BAD),
        ("id", "the file did not fit in /idle", Outcome.BAD),
        ("id", "checkpoint/id is damaged", Outcome.REFUSED),
        ("events/delivered/parquet", "a note of sink parquet is damaged", Outcome.BAD),
        (
            "events/spark/offsets/12",
            "notes in /a/checkpoint/events/spark are not those of then",
            Outcome.REFUSED,
        ),
        ("events/spark/offsets/12", "org.apache.spark.SparkException: 12", Outcome.BAD),
    ],
)
def test_only_a_refusal_that_names_what_is_damaged_is_one(file: str, said: str, outcome: Outcome) -> None:
    found = damage.outcome(file, "cut", refused=True, said=said, verdict=Verdict())
    assert found.outcome is outcome
    # Rows that are right are what counts, if the engine goes on.
    going_on = damage.outcome(file, "cut", refused=False, said=said, verdict=Verdict())
    assert going_on.outcome is Outcome.RECOVERED


def test_a_first_window_that_is_put_off_is_seen(site: Site) -> None:
    guests = Churn(site, seed=1)
    guests.step()
    (guest,) = guests.guests.values()
    assert guest.request is not None
    latest = (DELAY_MS + guest.asked.slide_ms) * 1000
    for start, problems in ((latest, 0), (latest + 1, 1)):
        answer = {"ok": True, "said": "added", "found": {"query": {"first_window": [start, start + 1]}}}
        answers = site.checkpoint / "answers"
        answers.mkdir(exist_ok=True)
        (answers / f"{guest.request.id}.json").write_text(json.dumps(answer))
        asked = guest.request
        guests.take_answers()
        assert (guests.waiting, len(guests.problems)) == (0, problems)
        guest.request = asked
