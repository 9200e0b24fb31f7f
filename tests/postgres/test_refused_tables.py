"""A query whose table cannot be used has its rows set aside, and stops no other query."""

import json
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
import pytest

from tests.postgres.samples import COLUMNS, FAST, ask, fail_at, keyless, result, rows, started
from weft.sinks import Delivery, PostgresSink

VIEW = 'WrongObjectType: cannot create index on relation "a"'


def refused(dsn: str) -> list[tuple[str, str]]:
    return ask(dsn, "SELECT query, reason FROM weft_refused ORDER BY at, query")


@pytest.mark.parametrize(
    ("prepare", "name", "reason"),
    [
        (
            f"CREATE TABLE a ({COLUMNS.replace('bigint', 'text')})",
            "a",
            'table "a" is not that of query a: it has no column n bigint; rename or drop the table, or give '
            "the query another name",
        ),
        (
            None,
            "weft_refused",
            'table "weft_refused" is the sink\'s own; give query weft_refused another name',
        ),
        (
            None,
            "weft_delivered",
            'table "weft_delivered" is the sink\'s own; give query weft_delivered another name',
        ),
        (f"CREATE TABLE real ({COLUMNS}); CREATE VIEW a AS SELECT * FROM real", "a", VIEW),
        ("CREATE TYPE a AS ENUM ('x')", "a", 'DuplicateObject: type "a" already exists'),
        (
            f'CREATE TABLE a ({COLUMNS}); CREATE UNIQUE INDEX "a weft key" ON a (n)',
            "a",
            "InvalidColumnReference: there is no unique or exclusion constraint matching the ON CONFLICT "
            "specification",
        ),
        (
            f"CREATE TABLE a ({COLUMNS} REFERENCES other DEFERRABLE INITIALLY DEFERRED)",
            "a",
            "ForeignKeyViolation (23503)",
        ),
    ],
    ids=["other columns", "weft_refused", "weft_delivered", "view", "type", "other key", "deferred"],
)
def test_only_the_query_at_fault_has_its_rows_set_aside(
    dsn: str, prepare: str | None, name: str, reason: str
) -> None:
    ask(dsn, "CREATE TABLE other (n bigint PRIMARY KEY)")
    if prepare is not None:
        for statement in prepare.split("; "):
            ask(dsn, statement)
    delivery = Delivery(PostgresSink(dsn), origin="c1", limits=FAST)
    for commit in range(3):
        new = result((commit, "A", 1), (commit, "B", 2))
        delivery.offer(commit, {"before": new, name: new, "later": new})
        assert delivery.drain(30)
    status = delivery.status
    delivery.close()
    assert (status.done, status.refused, status.error) == (2, 6, None)
    assert rows(dsn, "before") == rows(dsn, "later") == [("A", 1), ("B", 2)] * 3
    found = ask(dsn, 'SELECT query, reason, "row" FROM weft_refused')
    assert {query for query, *_ in found} == {name}
    assert {why for _, why, _ in found} == {reason}
    kept = [json.loads(row) for *_, row in found]
    assert sorted((one["window_end"], one["symbol"], one["n"]) for one in kept) == [
        (f"1970-01-01 00:00:0{commit}.000000Z", symbol, n)
        for commit in range(3)
        for symbol, n in (("A", "1"), ("B", "2"))
    ]


def test_a_table_without_a_grant_stops_no_other_query_and_is_taken_up_once_it_has_one(dsn: str) -> None:
    parts = urlsplit(dsn)
    role = f"guest_{parts.path.strip('/')}"
    ask(dsn, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    ask(dsn, f"GRANT CREATE, USAGE ON SCHEMA public TO {role}")
    ask(dsn, f"CREATE TABLE a ({COLUMNS})")
    sink = started(urlunsplit(parts._replace(netloc=f"{role}:x@")))
    sink.deliver(0, {"a": keyless(result((1, "A", 1))), "b": result((1, "B", 1))})
    sink.flush()
    assert (sink.done, sink.refused) == (0, 1)
    assert refused(dsn) == [("a", "InsufficientPrivilege: permission denied for table a")]
    ask(dsn, f"GRANT INSERT ON a TO {role}")
    sink.deliver(1, {"a": keyless(result((2, "A", 2))), "b": result((2, "B", 2))})
    sink.flush()
    sink.close()
    assert rows(dsn, "a") == [("A", 2)]
    assert rows(dsn, "b") == [("B", 1), ("B", 2)]
    assert sink.refused == 1


def test_a_name_that_is_given_to_a_query_of_other_columns_stops_nothing(dsn: str) -> None:
    """Both queries' results may wait for one flush."""
    sink, maps = started(dsn), pa.map_(pa.string(), pa.int64())
    other = keyless(result((2, "A", 7)).rename_columns(["window_start", "window_end", "symbol", "total"]))
    sink.deliver(0, {"a": result((1, "A", 1))})
    sink.deliver(1, {"a": other, "b": result((2, "B", 1))})
    sink.deliver(2, {"a": other.append_column("map", pa.array([[("x", 1)]], maps))})
    sink.flush()
    assert rows(dsn, "a") == [("A", 1)]
    assert rows(dsn, "b") == [("B", 1)]
    assert [reason for _, reason in refused(dsn)] == [
        'table "a" is not that of query a: it has no column total bigint; rename or drop the table, or give '
        "the query another name",
        'column "map" is of type map<string, int64>, which PostgreSQL tables have no column for',
    ]
    # A mended table takes what comes next.
    ask(dsn, "ALTER TABLE a ADD total bigint")
    sink.deliver(3, {"a": other})
    sink.flush()
    sink.close()
    assert ask(dsn, "SELECT n, total FROM a ORDER BY n") == [(1, None), (None, 7)]


def test_what_a_trigger_refuses_is_set_aside_row_by_row(dsn: str) -> None:
    condition = "IF NEW.n > 1 THEN RAISE EXCEPTION ''4711''; END IF; RETURN NEW"
    fail_at(dsn, "a", f"NOTICE ''new''; {condition}")
    sink = started(dsn)
    sink.deliver(0, {"a": result((1, "A", 1), (1, "B", 2), (1, "C", 0)), "b": result((1, "B", 1))})
    sink.flush()
    sink.close()
    assert rows(dsn, "a") == [("A", 1), ("C", 0)]
    assert rows(dsn, "b") == [("B", 1)]
    assert refused(dsn) == [("a", "RaiseException (P0001)")]


def test_rows_are_not_inserted_twice_if_the_table_fails_among_them(dsn: str) -> None:
    """One row is refused for its value, so that all are tried by halves, and another as if for its table."""
    condition = (
        "IF NEW.n = 1 THEN RAISE check_violation; ELSIF NEW.n = 9 THEN RAISE undefined_function; END IF; "
        "RETURN NEW"
    )
    fail_at(dsn, "a", f"NOTICE ''new''; {condition}")
    sink = started(dsn)
    sink.deliver(0, {"a": keyless(result(*((1, "A", n) for n in (2, 3, 4))))})
    sink.flush()
    sink.deliver(1, {"a": keyless(result(*((2, "A", n) for n in (5, 1, 6, 9))))})
    sink.flush()
    sink.close()
    kept = ask(dsn, "SELECT (\"row\"::json ->> 'n')::int FROM weft_refused ORDER BY 1")
    assert [n for _, n in rows(dsn, "a")] == [2, 3, 4]
    assert [n for (n,) in kept] == [1, 5, 6, 9]


def test_a_query_whose_name_no_text_holds_stops_no_other(dsn: str) -> None:
    sink = started(dsn)
    odd_column = result((1, "A", 1)).rename_columns(["window_start", "window_end", "symbol", "n\0"])
    sink.deliver(
        0,
        {
            "a\0": result((1, "A", 1)),
            "a\ud83d": result((1, "A", 1)),
            "b": result((1, "A", 1)),
            "c": odd_column,
        },
    )
    sink.flush()
    mend = "; give the query, or its column, another"
    assert refused(dsn) == [
        ("a%00", "PostgreSQL has no name 'a\\x00'" + mend),
        ("a%ED%A0%BD", "PostgreSQL has no name 'a\\ud83d'" + mend),
        ("c", "PostgreSQL has no name 'n\\x00'" + mend),
    ]
    assert (rows(dsn, "b"), sink.refused) == ([("A", 1)], 3)
    sink.close()
