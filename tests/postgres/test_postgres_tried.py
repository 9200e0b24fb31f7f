"""A database is tried before any row is read: what is wrong, in one line, and nothing is created."""

from pathlib import Path
from time import monotonic
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from tests.postgres.samples import ask
from weft.engine import Engine
from weft.sinks import PostgresSink, SinkError


def altered(dsn: str, *, user: str | None = None, options: str | None = None) -> str:
    """Return a connection string for another user, or with settings of the session."""
    parts = urlsplit(dsn)
    if user is not None:
        parts = parts._replace(netloc=f"{user}@")
    if options is not None:
        parts = parts._replace(query=f"{parts.query}&options={quote(options)}")
    return urlunsplit(parts)


def refused(dsn: str) -> str:
    """Return why a sink cannot be used, as a start would say it."""
    engine = Engine()
    engine.sink("desk", "postgres", connection=dsn)
    began = monotonic()
    with pytest.raises(SinkError) as caught:
        engine.try_sinks(queries=())
    assert monotonic() - began < 3
    (line,) = str(caught.value).splitlines()
    assert line.startswith("sink desk: ")
    return line


def test_a_trial_creates_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK", dsn)
    engine = Engine()
    engine.load("CREATE SINK desk USING postgres OPTIONS (connection_env 'DESK')")
    for _ in range(2):
        engine.try_sinks(queries=())
        assert ask(dsn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    sink = PostgresSink(dsn)
    sink.resume(-1)
    sink.close()
    engine.try_sinks(queries=())


def test_a_wrong_password_is_told_and_not_shown(dsn: str) -> None:
    line = refused(altered(dsn, user="weft:tell%20no"))
    assert 'password authentication failed for user "weft"' in line
    assert line.endswith("; start the server, or mend the connection string")
    assert "tell" not in line


def test_a_database_that_does_not_exist_is_told(dsn: str) -> None:
    line = refused(urlunsplit(urlsplit(dsn)._replace(path="/nowhere")))
    assert 'database "nowhere" does not exist' in line


def test_a_server_that_is_gone_is_told(dsn: str, tmp_path: Path) -> None:
    line = refused(f"postgresql://weft@/db?host={quote(str(tmp_path), safe='')}")
    assert "No such file or directory" in line


def test_a_database_that_can_only_be_read_is_told(dsn: str) -> None:
    line = refused(altered(dsn, options="-c default_transaction_read_only=on"))
    assert line.endswith(" can only be read; name the server that takes changes")


def test_rights_that_are_missing_are_told(dsn: str) -> None:
    line = refused(altered(dsn, options="-c search_path=nowhere"))
    assert "has no schema of the search path" in line
    user = f"reader_{urlsplit(dsn).path[1:]}"
    ask(dsn, f"CREATE ROLE {user} LOGIN PASSWORD 'x'")
    line = refused(altered(dsn, user=f"{user}:x"))
    assert line.endswith(
        "lets this user create no tables in schema public; GRANT CREATE ON SCHEMA public to it"
    )
    sink = PostgresSink(dsn)
    sink.resume(-1)
    sink.close()
    line = refused(altered(dsn, user=f"{user}:x"))
    assert "lets this user not write to table weft_delivered; GRANT SELECT, INSERT" in line
    ask(dsn, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}")
    PostgresSink(altered(dsn, user=f"{user}:x")).try_out()


def test_two_sinks_of_one_database_are_refused(dsn: str) -> None:
    engine = Engine()
    for name in "ab":
        engine.sink(name, "postgres", connection=dsn)
    with pytest.raises(Exception, match=r"sinks a and b both write to host=.*make them one sink"):
        engine.try_sinks(queries=())
