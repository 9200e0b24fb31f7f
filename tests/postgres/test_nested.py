"""Arrays and structs in PostgreSQL: arrays of scalars as arrays, the rest as JSON, each value as it was."""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings

from tests.postgres.samples import ask, started
from tests.unit.nested_samples import COUNTS, columns, result, same, scalars
from weft import types
from weft.sinks import with_keys
from weft.types import BIGINT, BOOLEAN, DOUBLE, STRING, DataType, Kind, array_of, struct_of

ON_ONE_DATABASE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(dsn: str, table: pa.Table) -> None:
    """Write a table as all results of query q."""
    ask(dsn, 'DROP TABLE IF EXISTS "q"')
    sink = started(dsn, origin="")
    sink.deliver(0, {"q": table})
    sink.flush()
    assert sink.refused == 0
    sink.close()


def from_json(value: Any, type: DataType) -> Any:
    """Return a value of a type from what JSON has of it."""
    if value is None:
        return None
    if type.kind is Kind.ARRAY:
        return [from_json(element, type.element) for element in value]
    if type.kind is Kind.STRUCT:
        return {name: from_json(value[name], of) for name, of in type.fields}
    if type == DOUBLE:
        return float(value)
    if type.kind is Kind.DECIMAL:
        return Decimal(value)
    if type.kind is Kind.BINARY:
        return bytes.fromhex(value.removeprefix("\\x"))
    if type == types.DATE:
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if type == types.TIMESTAMP else value


@ON_ONE_DATABASE
@given(column=columns(scalars.map(array_of)))
def test_arrays_of_scalars_are_arrays(dsn: str, column: tuple[DataType, list[Any]]) -> None:
    type, rows = column
    written(dsn, result(type, rows))
    assert same([x for (x,) in ask(dsn, 'SELECT x FROM "q" ORDER BY n')], rows)


@ON_ONE_DATABASE
@given(column=columns())
def test_values_are_as_they_were(dsn: str, column: tuple[DataType, list[Any]]) -> None:
    type, rows = column
    if type.kind is Kind.ARRAY and not type.element.is_nested:
        type, rows = struct_of(("x", type)), [{"x": row} for row in rows]
    written(dsn, result(type, rows))
    found = [None if x is None else json.loads(x, parse_float=Decimal)
             for (x,) in ask(dsn, 'SELECT x::text FROM "q" ORDER BY n')]  # fmt: skip
    assert same([from_json(x, type) for x in found], rows)


def test_json_is_written_as_postgresql_writes_it(dsn: str) -> None:
    """So that a column can be compared with `to_jsonb` of plain columns."""
    type = struct_of(
        ("a", BIGINT), ("b", DOUBLE), ("c", DOUBLE), ("d", STRING), ("e", BOOLEAN),
        ("f", DataType(Kind.DECIMAL, 10, 2)), ("g", DataType(Kind.BINARY)), ("h", types.DATE),
    )  # fmt: skip
    row = {
        "a": 2**62, "b": 0.1, "c": float("-inf"), "d": 'ü"\\\n', "e": True, "f": Decimal("1.50"),
        "g": b"\x00\xff", "h": date(2026, 2, 28),
    }  # fmt: skip
    written(dsn, result(type, [row]))
    assert ask(
        dsn,
        'SELECT x = to_jsonb(y) FROM "q", (SELECT 4611686018427387904 AS a, 0.1::float8 AS b, '
        "'-Infinity'::float8 AS c, E'ü\"\\\\\\n' AS d, true AS e, 1.50::numeric(10,2) AS f, "
        "'\\x00ff'::bytea AS g, '2026-02-28'::date AS h) AS y",
    ) == [(True,)]


def test_rows_of_a_key_are_replaced(dsn: str) -> None:
    first, second = ([{"value": value, "count": 1}] for value in "ab")
    table = result(COUNTS, [first]).append_column("shares", pa.array([[0.5, None]]))
    later = result(COUNTS, [second]).append_column("shares", pa.array([[]], pa.list_(pa.float64())))
    sink = started(dsn)
    for commit, rows in enumerate([table, later, later]):
        sink.deliver(commit, {"q": rows.replace_schema_metadata(with_keys(rows.schema, ["n"]).metadata)})
        if commit != 1:
            sink.flush()
    assert ask(dsn, 'SELECT n, x, shares FROM "q"') == [(0, second, [])]
    sink.close()


def test_a_value_that_has_no_text_is_refused_alone(dsn: str) -> None:
    bad = pa.array([b"good", b"\xff"], pa.binary()).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), bad)
    structs = pa.StructArray.from_arrays([lists], ["texts"])
    table = result(BIGINT, [1, 2]).append_column("texts", lists).append_column("y", structs)
    sink = started(dsn)
    sink.deliver(0, {"q": table})
    sink.flush()
    assert ask(dsn, 'SELECT n, texts, y FROM "q"') == [(0, ["good"], {"texts": ["good"]})]
    [(reason, row)] = ask(dsn, 'SELECT reason, "row" FROM weft_refused')
    assert reason == "text that is not UTF-8"
    assert json.loads(row)["texts"] == '["\\\\xff"]'
    sink.close()


def test_nul_is_replaced_in_arrays_and_json(dsn: str) -> None:
    table = result(array_of(STRING), [["a\0b"]]).append_column("y", pa.array([{"value": "a\0b"}]))
    written(dsn, table)
    assert ask(dsn, 'SELECT x, y FROM "q"') == [(["a␀b"], {"value": "a␀b"})]
