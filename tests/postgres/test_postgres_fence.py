"""PostgreSQL's fence: no row is changed for an engine that is not known, and results can be taken back."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.postgres.samples import ask, fail_at, keyless, result, rows
from tests.unit.lineages import after
from weft.errors import DamagedFile, Fenced
from weft.sinks import PostgresSink, SinkError
from weft.sinks.fence import Lineage, Target

ORIGIN = "c1 trades"
_opened: list[PostgresSink] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def fenced(dsn: str, lineage: Lineage, done: int, *, origin: str = ORIGIN) -> PostgresSink:
    sink = PostgresSink(dsn)
    _opened.append(sink)
    sink.set_lineage(lineage)
    sink.resume(done, origin=origin)
    return sink


def give(sink: PostgresSink, commits: range, query: str = "a") -> None:
    """Deliver a row a commit: that of a window which ends with the commit's second."""
    for commit in commits:
        sink.deliver(commit, {query: keyless(result((commit, "A", commit)))})
        sink.flush()


def numbers(dsn: str, query: str = "a") -> list[int | None]:
    return [n for _, n in rows(dsn, query)]


def target(lineage: Lineage, commit: int) -> Target:
    return Target(
        origin=ORIGIN, lineage=lineage, commit=commit, watermark=commit * 1_000_000 if commit >= 0 else None
    )


def test_a_restored_checkpoint_changes_nothing_and_is_refused_for_good(dsn: str) -> None:
    first = after(-1)
    give(fenced(dsn, first, -1), range(3))
    give(fenced(dsn, after(2, since=first), 2), range(3, 5))
    before = ask(dsn, "SELECT * FROM weft_delivered"), numbers(dsn)
    for _ in range(3):
        with pytest.raises(Fenced, match="through commit 000000004 of incarnation 2"):
            fenced(dsn, after(1, since=first), 1)
    assert (ask(dsn, "SELECT * FROM weft_delivered"), numbers(dsn)) == before


def test_whoever_was_overtaken_is_refused_in_the_transaction(dsn: str) -> None:
    first = after(-1)
    original = fenced(dsn, first, -1)
    give(original, range(2))
    copy = fenced(dsn, after(1, since=first), 1)
    original.deliver(2, {"a": keyless(result((2, "A", -2)))})
    give(copy, range(2, 4))
    with pytest.raises(Fenced, match="through commit 000000003 of incarnation 2"):
        original.flush()
    assert numbers(dsn) == [0, 1, 2, 3]


def test_a_server_that_was_away_at_the_start_is_judged_by_what_was_known_then(dsn: str) -> None:
    """The copy has made more commits by now than the sink has seen: they are others all the same."""
    first = after(-1)
    give(fenced(dsn, first, -1), range(5))
    copy = PostgresSink(dsn)
    _opened.append(copy)
    copy.set_lineage(after(2, since=first))
    with pytest.raises(Fenced, match="through commit 000000004"):
        copy.resume(2, origin=ORIGIN)
    # As it would be tried again after 30 commits.
    with pytest.raises(Fenced, match="through commit 000000004"):
        copy.resume(2, origin=ORIGIN)
    assert numbers(dsn) == [0, 1, 2, 3, 4]


def test_a_history_from_before_there_were_claims_goes_on(dsn: str) -> None:
    ask(
        dsn,
        "CREATE TABLE weft_delivered (sink text PRIMARY KEY, commit bigint NOT NULL, "
        "at timestamptz NOT NULL DEFAULT now())",
    )
    ask(dsn, "INSERT INTO weft_delivered (sink, commit) VALUES (%s, 7)", (f"postgres {ORIGIN}",))
    with pytest.raises(Fenced, match="through commit 000000007"):
        fenced(dsn, after(6), 6)
    sink = fenced(dsn, after(7), 5)
    assert sink.done == 7
    give(sink, range(8, 10))
    assert numbers(dsn) == [8, 9]


def test_results_are_taken_back_to_what_both_have(dsn: str) -> None:
    first = after(-1)
    give(fenced(dsn, first, -1), range(10))
    newer = fenced(dsn, after(9, since=first), 9)
    give(newer, range(10, 12), "b % \"'")
    ask(dsn, "CREATE TABLE bystander (window_end timestamptz, n bigint)")
    ask(dsn, "INSERT INTO bystander VALUES (now(), 1)")
    copy, sink = after(5, since=first), PostgresSink(dsn)
    told = sink.surplus(target(copy, 5))
    assert [(one.query, one.rows) for one in sorted(told, key=lambda one: one.query)] == [
        ("a", 4), ("b % \"'", 2),
    ]  # fmt: skip
    assert numbers(dsn) == list(range(10))
    sink.rewind(target(copy, 5))
    assert ask(dsn, "SELECT count(*) FROM bystander") == [(1,)]
    again = fenced(dsn, copy, 3)
    assert again.done == 5
    give(again, range(6, 8))
    assert numbers(dsn) == list(range(8))
    newer.deliver(12, {"a": keyless(result((12, "A", 12)))})
    with pytest.raises(Fenced):
        newer.flush()


def test_rows_set_aside_are_taken_back_too(dsn: str) -> None:
    first = after(-1)
    fail_at(dsn, "a", "numeric_value_out_of_range")
    sink = fenced(dsn, first, -1)
    give(sink, range(4))
    assert sink.refused == 4
    copy = after(1, since=first)
    [told] = PostgresSink(dsn).surplus(target(copy, 1))
    assert (told.query, told.rows) == ("weft_refused", 2)
    PostgresSink(dsn).rewind(target(copy, 1))
    assert fenced(dsn, copy, 1).refused == 2


def test_everything_goes_where_nothing_is_common(dsn: str) -> None:
    give(fenced(dsn, after(-1), -1), range(3))
    lineage = after(-1)
    PostgresSink(dsn).rewind(target(lineage, -1))
    sink = fenced(dsn, lineage, -1)
    assert (numbers(dsn), sink.done) == ([], -1)
    sink.deliver(0, {"a": pa.concat_tables([result((1, "A", 1))])})
    sink.flush()


def test_a_table_that_another_checkpoint_writes_to_is_not_taken_back(dsn: str) -> None:
    first = after(-1)
    give(fenced(dsn, first, -1), range(4))
    give(fenced(dsn, after(-1), -1, origin="c2 trades"), range(4, 9))
    give(fenced(dsn, after(3, since=first), 3), range(4, 5), "b")
    before, copy = ask(dsn, "SELECT * FROM weft_delivered"), after(1, since=first)
    for take in (PostgresSink(dsn).surplus, PostgresSink(dsn).rewind):
        with pytest.raises(SinkError, match='table "a" has results of sink "postgres c2 trades" too'):
            take(target(copy, 1))
    assert (numbers(dsn), numbers(dsn, "b")) == (list(range(9)), [4])
    assert ask(dsn, "SELECT * FROM weft_delivered") == before
    # As the sentence advises, if the other is over.
    ask(dsn, "DELETE FROM weft_written WHERE sink = 'postgres c2 trades'")
    PostgresSink(dsn).rewind(target(copy, 1))
    assert (numbers(dsn), numbers(dsn, "b")) == ([0, 1], [])


def test_tables_of_other_checkpoints_stay(dsn: str) -> None:
    first = after(-1)
    give(fenced(dsn, first, -1), range(4))
    give(fenced(dsn, after(-1), -1, origin="c2 trades"), range(9), "b")
    copy = after(1, since=first)
    assert [(one.query, one.rows) for one in PostgresSink(dsn).surplus(target(copy, 1))] == [("a", 2)]
    PostgresSink(dsn).rewind(target(copy, 1))
    assert (numbers(dsn), numbers(dsn, "b")) == ([0, 1], list(range(9)))


def test_a_sink_that_is_not_ahead_has_nothing_to_lose(dsn: str) -> None:
    """Rows of later windows are another's, or a user's: this history is known to its end."""
    first = after(-1)
    give(fenced(dsn, first, -1), range(4))
    ask(dsn, "INSERT INTO a SELECT window_start, window_end + interval '1 day', symbol, n FROM a")
    before, follower = ask(dsn, "SELECT * FROM weft_delivered"), after(3, since=first)
    assert PostgresSink(dsn).surplus(target(follower, 3)) == []
    PostgresSink(dsn).rewind(target(follower, 3))
    assert len(numbers(dsn)) == 8
    assert ask(dsn, "SELECT * FROM weft_delivered") == before


def test_a_database_that_was_emptied_or_restored_is_told_of(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = after(-1)
    give(fenced(dsn, first, -1), range(6))
    fenced(dsn, after(5, since=first), 5)
    assert caplog.messages == []
    ask(dsn, "UPDATE weft_delivered SET commit = 2")
    ask(dsn, "DELETE FROM a WHERE n > 2")
    sink = fenced(dsn, after(5, since=first), 5)
    assert "has no results of commits 3 to 5; it gets those that follow" in caplog.text
    give(sink, range(6, 7))
    assert numbers(dsn) == [0, 1, 2, 6]
    ask(dsn, "DROP TABLE a, weft_delivered, weft_written")
    sink = fenced(dsn, after(6, since=first), 6)
    assert "has no results of commits 0 to 6" in caplog.text
    # Once is enough.
    caplog.clear()
    sink.resume(6, origin=ORIGIN)
    assert caplog.messages == []


def test_a_damaged_claim_is_named_and_can_be_taken_back(dsn: str) -> None:
    first = after(-1)
    give(fenced(dsn, first, -1), range(4))
    ask(dsn, "UPDATE weft_delivered SET claim = left(claim, 9)")
    follower = after(3, since=first)
    with pytest.raises(DamagedFile, match="column claim of table weft_delivered"):
        fenced(dsn, follower, 3)
    assert [one.rows for one in PostgresSink(dsn).surplus(target(follower, 1))] == [2]
    PostgresSink(dsn).rewind(target(follower, 1))
    give(fenced(dsn, follower, 1), range(2, 5))
    assert numbers(dsn) == list(range(5))


@pytest.mark.parametrize("stream", ["a\0b", "a\ud83d", "\0" * 300])
def test_a_stream_may_have_a_name_that_no_text_holds(dsn: str, stream: str) -> None:
    first, origin = after(-1), f"c1 {stream}"
    give(fenced(dsn, first, -1, origin=origin), range(3))
    assert fenced(dsn, after(2, since=first), 0, origin=origin).done == 2
    with pytest.raises(Fenced):
        fenced(dsn, after(1, since=first), 1, origin=origin)
    seen = PostgresSink(dsn).seen(origin)
    assert seen is not None
    assert seen.through == 2
