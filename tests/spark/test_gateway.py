"""The JVM is asked once for what it has."""

from collections.abc import Callable

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from weft.spark.session.gateway import java_class, remember_functions


def asked(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """Return how often the JVM is asked for something, other than to forget objects."""
    commands: list[str] = []
    send = ClientServerConnection.send_command

    def note(self: ClientServerConnection, command: str) -> str:
        commands.append(command)
        return str(send(self, command))

    with monkeypatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", note)
        kept = work()
    del kept
    return sum(not command.startswith("m") for command in commands)


def test_a_function_is_one_round_trip(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_functions()
    column = F.col("a")
    first = F.abs(column)
    assert asked(monkeypatch, lambda: F.col("b")) == 1
    assert asked(monkeypatch, lambda: F.abs(column)) == 1
    assert str(first) == str(F.abs(column)) == "Column<'abs(a)'>"


def test_functions_do_what_they_did(spark: SparkSession) -> None:
    remember_functions()
    row = spark.range(1).select(F.coalesce(F.lit(None), F.lit(7)), F.array(F.lit(1), F.lit(2))).first()
    assert row is not None
    assert list(row) == [7, [1, 2]]
    with pytest.raises(AttributeError, match="nonsense"):
        _ = F.nonsense  # type: ignore[attr-defined]


def test_a_class_is_known_by_its_full_name(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = java_class("java.lang.Long")
    assert java_class("java.lang.Long") is numbers
    assert numbers.parseLong("17") == 17
    assert asked(monkeypatch, lambda: numbers.parseLong("18")) == 1
    assert numbers.MAX_VALUE == 2**63 - 1
    assert numbers.MAX_VALUE == 2**63 - 1
