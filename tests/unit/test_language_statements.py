"""CREATE STREAM, CREATE TABLE, CREATE QUERY, DROP QUERY."""

import pytest

from weft.errors import BadWindow, NotAllowed, QueryError, SyntaxMistake, TypeMismatch, UnknownName
from weft.query import CreateQuery, CreateStream, CreateTable, DropQuery, check_stream, parse, parse_select
from weft.query.logical import ColumnDef, Source, StreamDef, TableDef, TimeUnit
from weft.types import BIGINT, DOUBLE, STRING, TIMESTAMP, DataType, Kind

WORKLOAD = """
-- A semicolon in a comment; it does not end the statement.
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/;') EVENT TIME time DELAY '10 seconds';
CREATE TABLE close USING csv OPTIONS (path 'close.csv', header 'true');
/* a comment; /* nested; */ still one */
CREATE QUERY big AS
  SELECT sum(price * vol) AS value FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE vol > 50000;
DROP QUERY big;;
"""


def stream(text: str) -> StreamDef:
    (statement,) = parse("CREATE STREAM " + text)
    assert isinstance(statement, CreateStream)
    return statement.definition


def test_a_workload_is_a_sequence_of_statements() -> None:
    streams, tables, queries, drops = parse(WORKLOAD)
    columns = {"time": TIMESTAMP, "symbol": STRING, "price": DOUBLE, "vol": BIGINT}
    assert streams == CreateStream(
        definition=StreamDef(
            name="trades",
            columns=tuple(ColumnDef(name=name, type=type) for name, type in columns.items()),
            time="time",
            delay_ms=10_000,
            source=Source(format="parquet", options=(("path", "trades/;"),)),
        )
    )
    source = Source(format="csv", options=(("path", "close.csv"), ("header", "true")))
    assert tables == CreateTable(definition=TableDef(name="close", source=source))
    assert isinstance(queries, CreateQuery)
    assert queries.name == "big"
    assert queries.select.startswith("SELECT sum(price * vol)")
    assert queries.select.endswith("vol > 50000")
    assert WORKLOAD[queries.start :].startswith(queries.select)
    assert drops == DropQuery(name="big")


def test_a_table_may_be_read_again_after_a_time() -> None:
    once, before, after = parse(
        "CREATE TABLE a USING csv; CREATE TABLE b USING csv REFRESH 90 s OPTIONS (path 'b');"
        "CREATE TABLE c (x INT) USING csv OPTIONS (path 'c') REFRESH '10 minutes'"
    )
    assert isinstance(once, CreateTable)
    assert once.definition.refresh_ms is None
    assert isinstance(before, CreateTable)
    assert before.definition == TableDef(
        name="b", source=Source(format="csv", options=(("path", "b"),)), refresh_ms=90_000
    )
    assert isinstance(after, CreateTable)
    assert after.definition.refresh_ms == 600_000
    with pytest.raises(BadWindow, match="cannot be read again every 0 ms"):
        TableDef(name="d", refresh_ms=0)


@pytest.mark.parametrize("text", ["", "  \n", ";;;", "-- only a comment", "/* ; */", "-- a\n;/* b */"])
def test_nothing_is_no_statement(text: str) -> None:
    assert parse(text) == ()


def test_clauses_of_a_stream_come_in_any_order() -> None:
    one = stream("s (t BIGINT) USING kafka OPTIONS (a 'b') EVENT TIME t UNIT 'ms' DELAY '5 s' SKEW '1 hour'")
    other = stream(
        "s (t BIGINT) USING kafka SKEW 1 HOUR DELAY 5 SECONDS UNIT milliseconds EVENT TIME t OPTIONS (a 'b')"
    )
    assert one == other
    assert (one.time_unit, one.delay_ms, one.skew_ms) == (TimeUnit.MILLISECONDS, 5_000, 3_600_000)


def test_a_stream_may_leave_its_columns_to_the_source() -> None:
    definition = stream("s USING json EVENT TIME `event time` SKEW NONE")
    assert (definition.columns, definition.time, definition.skew_ms) == ((), "event time", None)
    assert stream("s USING json EVENT TIME t").skew_ms == 600_000


def test_options_have_bare_dotted_and_quoted_keys() -> None:
    definition = stream(
        "s USING org.apache.spark.sql.kafka010 EVENT TIME t OPTIONS "
        "(kafka.bootstrap.servers 'h:9092', 'max.files' 10, header TRUE, rate = -1.5, `a b` 'x')"
    )
    assert definition.source == Source(
        format="org.apache.spark.sql.kafka010",
        options=(
            ("kafka.bootstrap.servers", "h:9092"), ("max.files", "10"), ("header", "true"), ("rate", "-1.5"),
            ("a b", "x"),
        ),
    )  # fmt: skip


def test_every_type_has_its_names() -> None:
    text = """s (a BOOLEAN, b TINYINT, c BYTE, d SMALLINT, e SHORT, f INT, g INTEGER, h BIGINT, i LONG,
        j FLOAT, k REAL, l DOUBLE, m DECIMAL, n DECIMAL(12), o NUMERIC(20, 5), p STRING, q VARCHAR(10),
        r CHAR(3), s BINARY, t DATE, u TIMESTAMP, v TIMESTAMP_NTZ, w TIMESTAMP_LTZ, `from` INT, order STRING)
        USING parquet EVENT TIME u"""
    assert [str(column.type) for column in stream(text).columns] == [
        "boolean", "tinyint", "tinyint", "smallint", "smallint", "int", "int", "bigint", "bigint", "float",
        "float", "double", "decimal(10,0)", "decimal(12,0)", "decimal(20,5)", "string", "string", "string",
        "binary", "date", "timestamp", "timestamp_ntz", "timestamp", "int", "string",
    ]  # fmt: skip


UNIT_HINT = "add UNIT 's', 'ms', 'us' or 'ns' (in Python unit=\"ms\")"
BAD = [
    ("CREATE STREAM s (t «INTT») USING x EVENT TIME t", UnknownName,
     'unknown type "INTT"; did you mean "INT"?'),
    ("CREATE STREAM s (t «ARRAY»<INT>) USING x EVENT TIME t", TypeMismatch,
     "queries cannot use type ARRAY; leave the column out"),
    ("CREATE STREAM s (t DECIMAL«(39, 1)») USING x EVENT TIME t", TypeMismatch,
     "DECIMAL(39,1) does not exist; at most 38 digits, scale included"),
    ("CREATE STREAM s (t INT, «T» INT) USING x EVENT TIME t UNIT 's'", NotAllowed,
     'column "T" is declared twice; remove one'),
    ("CREATE STREAM s (t TIMESTAMP) USING x EVENT TIME «tt»", UnknownName,
     'event time "tt" is not a column of stream s; did you mean "t"?'),
    ("CREATE STREAM s (t TIMESTAMP) USING x EVENT TIME «t» UNIT 's'", TypeMismatch,
     'event time "t" is a timestamp, which has no unit; remove UNIT'),
    ("CREATE STREAM s (t BIGINT) USING x EVENT TIME «t»", TypeMismatch,
     f'event time "t" is a bigint and its unit is unknown; {UNIT_HINT}'),
    ("CREATE STREAM s (t STRING) USING x EVENT TIME «t»", TypeMismatch,
     'event time "t" is a string; it must be a timestamp, a date or a number'),
    ("CREATE STREAM «s» (t TIMESTAMP) USING x", SyntaxMistake,
     "stream s has no event time; add EVENT TIME and a column"),
    ("CREATE STREAM s USING x EVENT TIME t DELAY '1 s' «DELAY» '2 s'", SyntaxMistake,
     "DELAY is given twice; remove one"),
    ("CREATE STREAM s USING x EVENT TIME t UNIT «'m'»", QueryError,
     "unknown unit \"m\"; known are 's', 'ms', 'us', 'ns'"),
    ("CREATE STREAM s USING x EVENT TIME t DELAY «'soon'»", QueryError,
     "\"soon\" is not a duration; write a number and a unit, as in '12 min' or '1 hour 30 minutes'"),
    ("CREATE STREAM s USING x EVENT TIME t «WATERMARK» '1 s'", SyntaxMistake,
     "expected OPTIONS, EVENT TIME, UNIT, DELAY or SKEW, found WATERMARK"),
    ("CREATE STREAM s USING x OPTIONS (a 'b', «A» 'c') EVENT TIME t", NotAllowed,
     'option "A" is given twice; remove one'),
    ("CREATE STREAM s USING x OPTIONS (a «earliest») EVENT TIME t", SyntaxMistake,
     "expected a string, a number, true or false, found earliest"),
    ("CREATE STREAM s «EVENT» TIME t", SyntaxMistake,
     "expected USING and a format, as in USING parquet, found EVENT"),
    ("CREATE STREAM «(»t INT) USING x", SyntaxMistake, "expected the stream's name, found ("),
    ("CREATE TABLE t USING csv «EVENT» TIME x", SyntaxMistake,
     "expected OPTIONS or REFRESH, found EVENT"),
    ("CREATE STREAM s (t TIMESTAMP) USING «parket» OPTIONS (path 'p') EVENT TIME t", UnknownName,
     'unknown format "parket"; did you mean "parquet"?'),
    ("CREATE TABLE t USING «Jsonl»", UnknownName, 'unknown format "Jsonl"; did you mean "json"?'),
    ("CREATE TABLE t USING csv REFRESH «'0 s'»", BadWindow, "REFRESH takes a duration longer than 0"),
    ("CREATE TABLE t USING csv REFRESH «'soon'»", BadWindow,
     "\"soon\" is not a duration; write a number and a unit, as in '12 min' or '1 hour 30 minutes'"),
    ("CREATE TABLE t USING csv REFRESH '1 s' «REFRESH» '1 s'", SyntaxMistake,
     "REFRESH is given twice; remove one"),
    ("«SELECT» count(*) FROM s", SyntaxMistake, "a query needs a name; write CREATE QUERY name AS SELECT …"),
    ("«SHOW» TABLES", SyntaxMistake,
     "expected CREATE STREAM, CREATE TABLE, CREATE SINK, CREATE QUERY or DROP QUERY, found SHOW"),
    ("CREATE QUERY q A«S»", SyntaxMistake, "expected SELECT, but the text ends here"),
    ("CREATE QUERY «`../x`» AS SELECT 1", NotAllowed,
     '"../x" cannot name a query; use letters, digits, "_", "-", "." and spaces'),
    ("DROP QUERY a «b»", SyntaxMistake, "expected the end of the statement, found b"),
    ("CREATE QUERY q AS SELECT count(*) FROM s WHERE «'»abc", SyntaxMistake, "this quote has no end"),
    ("CREATE QUERY q AS SELECT count(*) FROM s «/*» abc /* */", SyntaxMistake, "this comment has no end"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "kind", "problem"), BAD)
def test_a_bad_statement_says_what_is_wrong_and_where(
    marked: str, kind: type[QueryError], problem: str
) -> None:
    text = marked.replace("«", "").replace("»", "")
    with pytest.raises(kind) as caught:
        parse(text)
    error = caught.value
    assert error.problem == problem
    assert error.span is not None
    begin, end = error.span
    assert error.text[begin:end] == marked[marked.index("«") + 1 : marked.index("»")]
    assert f"\n  {error.text}\n" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM a USING x EVENT TIME t; CREATE STREAM A USING y EVENT TIME t",
        "CREATE STREAM a USING x EVENT TIME t; CREATE TABLE a USING y",
        "CREATE QUERY a AS SELECT count(*) FROM s; CREATE QUERY A AS SELECT count(*) FROM s",
    ],
)
def test_a_name_is_defined_once(text: str) -> None:
    with pytest.raises(NotAllowed, match="is defined twice; rename one"):
        parse(text)


def test_a_dropped_name_is_free_again() -> None:
    query = "CREATE QUERY a AS SELECT count(*) FROM s;"
    assert len(parse(f"{query} DROP QUERY a; {query}")) == 3


def test_a_query_may_be_called_like_a_stream() -> None:
    assert len(parse("CREATE STREAM a USING x EVENT TIME t; CREATE QUERY a AS SELECT count(*) FROM a")) == 2


def test_check_stream_serves_columns_that_come_later() -> None:
    check_stream(StreamDef(name="s", time="T", columns=(ColumnDef(name="t", type=TIMESTAMP),)))
    for kind in (Kind.INT, Kind.DOUBLE, Kind.DECIMAL):
        column = ColumnDef(name="t", type=DataType(kind))
        check_stream(StreamDef(name="s", time="t", time_unit=TimeUnit.SECONDS, columns=(column,)))
        with pytest.raises(TypeMismatch, match="its unit is unknown"):
            check_stream(StreamDef(name="s", time="t", columns=(column,)))


SELECT = "SELECT count(*) FROM s"


def test_a_bare_select_takes_its_name_from_the_call() -> None:
    assert parse_select(f" {SELECT} ; ", name="big") == CreateQuery(
        name="big", select=SELECT, syntax=parse_select(SELECT, name="x").syntax
    )
    assert parse_select(f"CREATE QUERY x AS {SELECT}", name="").name == "x"
    assert parse_select(f"CREATE QUERY x AS {SELECT}", name="y").name == "y"


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ("", "q", "query q: expected one SELECT, found nothing"),
        ("-- c", "q", "query q: expected one SELECT, found nothing"),
        (f"{SELECT};{SELECT}", "q", "query q: expected one SELECT, found 2 statements"),
        (SELECT, "", 'the query has no name; give one, as in add("SELECT …", name="big")'),
        (
            SELECT,
            "a/b",
            'query a/b: "a/b" cannot name a query; use letters, digits, "_", "-", "." and spaces',
        ),
    ],
)
def test_parse_select_wants_one_named_select(text: str, name: str, problem: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_select(text, name=name)
    assert str(caught.value) == problem


def test_spans_point_into_the_select_wherever_it_stands() -> None:
    with pytest.raises(SyntaxMistake) as caught:
        parse("CREATE QUERY a AS SELECT count(*) FROM s;\n\n  CREATE QUERY b AS\n  SELECT count(* FROM s")
    assert (
        str(caught.value) == "query b: expected ), found FROM\n  SELECT count(* FROM s\n                 ^^^^"
    )


def test_strings_keep_their_quotes_and_escapes() -> None:
    definition = stream(
        r"""s USING x EVENT TIME t OPTIONS (a 'it''s', b "say ""hi"" to", c 'a\'b;', d r'\d;')"""
    )
    assert definition.source is not None
    assert [value for _, value in definition.source.options] == ["it's", 'say "hi" to', "a'b;", r"\d;"]


def test_a_query_may_replace_one_of_its_name() -> None:
    text = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
    first, second, third = parse(
        f"CREATE QUERY q AS {text}; create or replace query q AS {text}; CREATE QUERY p AS {text}"
    )
    assert isinstance(first, CreateQuery)
    assert isinstance(second, CreateQuery)
    assert isinstance(third, CreateQuery)
    assert [one.replace for one in (first, second, third)] == [False, True, False]
    assert (second.name, second.select) == ("q", text)
    assert parse_select(f"CREATE OR REPLACE QUERY q AS {text}", name="").replace
    assert not parse_select(text, name="q").replace
    # Where it does not say so, a name is given once.
    with pytest.raises(NotAllowed, match='query "q" is defined twice'):
        parse(f"CREATE OR REPLACE QUERY q AS {text}; CREATE QUERY q AS {text}")
    for mistake in ("CREATE OR QUERY q AS SELECT 1", "CREATE OR REPLACE STREAM s USING parquet"):
        with pytest.raises(SyntaxMistake, match=r"expected (REPLACE|QUERY)"):
            parse(mistake)
