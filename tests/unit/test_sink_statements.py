"""CREATE SINK: what it means, each mistake's message, and that no message shows a password."""

from pathlib import Path

import pytest

from weft.engine import Engine
from weft.errors import EngineError, NotAllowed, QueryError, SyntaxMistake, UnknownName
from weft.query import CreateSink, parse, parse_select
from weft.query.logical import SinkDef, SinkKind
from weft.sinks import ForeachSink, ParquetSink

SECRET = "p4ss'w;ord"
"""A password with what ends strings and statements."""


def sink(text: str) -> SinkDef:
    (statement,) = parse("CREATE SINK " + text)
    assert isinstance(statement, CreateSink)
    return statement.definition


def test_a_sink_has_a_kind_options_and_queries() -> None:
    assert sink("files USING parquet OPTIONS (path 'results/')") == SinkDef(
        name="files", kind=SinkKind.PARQUET, options=(("path", "results/"),)
    )
    assert sink("`my sink` USING Postgres FOR a, `b c` OPTIONS (CONNECTION_ENV = 'PG')") == SinkDef(
        name="my sink", kind=SinkKind.POSTGRES, options=(("connection_env", "PG"),), queries=("a", "b c")
    )
    assert sink("c USING console") == SinkDef(name="c", kind=SinkKind.CONSOLE)


BAD: list[tuple[str, type[QueryError], str]] = [
    ("CREATE SINK f USING «parket»", UnknownName,
     'unknown kind of sink "parket"; did you mean "parquet"?'),
    ("CREATE SINK f USING «kafka»", UnknownName,
     'unknown kind of sink "kafka"; known are parquet, postgres, console'),
    ("CREATE SINK f USING parquet OPTIONS («pth» '*')", UnknownName,
     'a parquet sink has no option "pth"; did you mean "path"?'),
    ("CREATE SINK f USING postgres OPTIONS («conection» '*')", UnknownName,
     'a postgres sink has no option "conection"; did you mean "connection"?'),
    ("CREATE SINK f USING console OPTIONS («rows» 5)", UnknownName,
     'a console sink has no option "rows"; it takes none'),
    ("CREATE SINK f USING parquet OPTIONS (path '*', «PATH» '*')", NotAllowed,
     'option "PATH" is given twice; remove one'),
    ("CREATE SINK f USING «parquet» FOR a", SyntaxMistake,
     "sink f has no folder; add OPTIONS (path 'results/') (in Python path=…)"),
    ("CREATE SINK f USING «postgres»", SyntaxMistake,
     "sink f needs one connection string; add OPTIONS (connection_env 'NAME'), the name of an environment "
     "variable that holds it, or else (connection 'postgresql://…')"),
    ("CREATE SINK f USING «postgres» OPTIONS (connection '*', connection_env '*')", SyntaxMistake,
     "sink f needs one connection string; add OPTIONS (connection_env 'NAME'), the name of an environment "
     "variable that holds it, or else (connection 'postgresql://…')"),
    ("CREATE SINK f USING «postgres» OPTIONS (connection_env '*')", SyntaxMistake,
     "connection_env of sink f takes the name of an environment variable"),
    ("CREATE SINK «USING» parquet", SyntaxMistake, "expected the sink's name, found USING"),
    ("CREATE SINK f «OPTIONS» (path '*')", SyntaxMistake,
     "expected USING and parquet, postgres or console, found OPTIONS"),
    ("CREATE SINK f USING console «FRO» a", SyntaxMistake, "expected OPTIONS or FOR, found FRO"),
    ("CREATE SINK f USING console FOR a«,»", SyntaxMistake,
     "expected a query's name, but the text ends here"),
    ("CREATE SINK f USING «console» FOR a, b, a", NotAllowed, "sink f is FOR query a twice; remove one"),
    ("CREATE SINK f USING postgres OPTIONS (connection '*' «'*'»)", SyntaxMistake,
     "expected ), found '*'"),
    ("CREATE SINK f USING console; CREATE SINK «F» USING console", NotAllowed,
     'sink "F" is defined twice; rename one'),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "kind", "problem"), BAD)
def test_a_bad_sink_says_what_is_wrong_and_where(marked: str, kind: type[QueryError], problem: str) -> None:
    with pytest.raises(kind) as caught:
        parse(marked.replace("«", "").replace("»", ""))
    error = caught.value
    assert error.problem == problem
    *_, line, carets = str(error).split("\n")
    under = [letter for letter, mark in zip(line, carets, strict=False) if mark == "^"]
    assert "".join(under) == marked[marked.index("«") + 1 : marked.index("»")]


QUOTED = SECRET.replace("'", "''")


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE SINK f USING postgres OPTIONS (connection '{QUOTED}') FRO a",
        f"CREATE SINK f USING postgres OPTIONS (conection '{QUOTED}')",
        f"CREATE SINK f USING postgres OPTIONS (connection_env '{QUOTED}')",
        f'CREATE SINK f USING postgres OPTIONS (connection "{SECRET}" "{SECRET}")',
        f"CREATE SINK f USING postgres OPTIONS (connection r'{SECRET.replace(chr(39), '')}' 1)",
        f"CREATE SINK f USING postgres /* it's */ OPTIONS (connection '{QUOTED}') FRO a",
        f"CREATE -- it's\n SINK f USING postgres OPTIONS (connection '{QUOTED}') FRO a",
        f"CREATE SINK `it's` USING postgres OPTIONS (connection '{QUOTED}') FRO a",
        f"create sink f USING postgres OPTIONS (connection '{SECRET.replace(chr(39), '')}",
        f"CREATE SINK f USING console; create sink f USING postgres OPTIONS (connection '{QUOTED}')",
        f"CREATE SINK f USING postgres OPTIONS (connection '{QUOTED}', connection_env 'X')",
        f"CREATE SINK f USING postgres OPTIONS ('{QUOTED}' 'X')",
    ],
)
def test_no_message_shows_a_password(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert "ord" not in str(caught.value).replace("find", "")
    with pytest.raises(QueryError) as caught:
        parse_select(text, name="q")
    assert "ord" not in str(caught.value)


def test_sinks_declared_in_python_mean_the_same(tmp_path: Path) -> None:
    written, called = Engine(), Engine()
    written.load(
        f"CREATE SINK files USING parquet OPTIONS (path '{tmp_path}') FOR a, b; CREATE SINK c USING console"
    )
    called.sink("files", "parquet", path=tmp_path, queries=["a", "b"])
    called.sink("c", "console")
    for engine in (written, called):
        files, console = engine.outlets()
        assert isinstance(files.sink, ParquetSink)
        assert (files.sink.name, files.sink.place) == ("files", str(tmp_path))
        assert files.queries == {"a", "b"}
        assert (console.sink.name, console.queries) == ("c", frozenset())
    with pytest.raises(UnknownName, match='unknown kind of sink "parket"; did you mean "parquet"'):
        called.sink("d", "parket", path="x")
    with pytest.raises(UnknownName, match='a parquet sink has no option "pth"; did you mean "path"'):
        called.sink("d", "parquet", pth="x")
    with pytest.raises(EngineError, match=r'there is a sink "c" already; choose another name'):
        called.sink("c", "console")


def test_a_sink_of_ones_own_has_queries_too() -> None:
    engine = Engine()
    engine.sink("mine", lambda: ForeachSink(print, name="mine"), queries="a")
    (outlet,) = engine.outlets()
    assert (outlet.sink.name, outlet.queries) == ("mine", {"a"})
    engine.sink("other", ForeachSink(print))
    with pytest.raises(
        EngineError, match=r'"other" calls itself "foreach"; give both .* ForeachSink\(…, name="other"\)'
    ):
        engine.outlets()
    with pytest.raises(EngineError, match="path=… goes with a kind of sinks"):
        engine.sink("third", ForeachSink(print), path="x")


def test_relative_paths_start_at_the_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = Engine()
    engine.load("CREATE SINK a USING parquet OPTIONS (path 'out')", base=tmp_path / "there")
    engine.sink("b", "parquet", path="out")
    places = [outlet.sink.place for outlet in engine.outlets() if isinstance(outlet.sink, ParquetSink)]
    assert places == [f"{tmp_path}/there/out", f"{tmp_path}/out"]
