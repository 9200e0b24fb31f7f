"""`weft run` and `weft explain`, as far as they go without Spark."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from typer.testing import CliRunner

from weft.cli import app as cli_app
from weft.cli.app import app, main
from weft.cli.running import check_delivered
from weft.errors import EngineError
from weft.sinks import DeliveryStatus

WELL = DeliveryStatus(
    sink="parquet", done=7, offered=7, behind=0, waiting_bytes=0, attempts=0, error=None, retry_in_s=None
)
BEHIND = replace(WELL, sink="postgres", done=4, behind=3, error="OperationalError: no route to host")


def test_a_run_is_done_when_all_sinks_have_all_results() -> None:
    check_delivered([], durable=False)
    check_delivered([WELL, replace(WELL, sink="postgres")], durable=True)


@pytest.mark.parametrize(("durable", "fate"), [(True, "wait in the checkpoint"), (False, "are lost")])
def test_results_that_a_sink_has_not_taken_are_told(durable: bool, fate: str) -> None:
    with pytest.raises(EngineError) as told:
        check_delivered([WELL, BEHIND], durable=durable)
    said = str(told.value)
    assert "sink postgres has not taken the results of 3 commits" in said
    assert "no route to host" in said
    assert fate in said


def test_a_sink_without_an_error_is_slow() -> None:
    with pytest.raises(EngineError, match="too slow"):
        check_delivered([replace(BEHIND, error=None)], durable=True)


def test_a_plan_is_explained_within_limits(tmp_path: Path) -> None:
    workload = tmp_path / "workload.sql"
    workload.write_text(
        "CREATE STREAM trades (time TIMESTAMP, vol BIGINT) USING parquet OPTIONS (path 'trades/') "
        "EVENT TIME time; CREATE QUERY q AS SELECT count(*) AS n FROM trades [RANGE '10 s'] "
        f"WHERE vol IN ({', '.join(map(str, range(11_000)))})"
    )
    refused = CliRunner().invoke(app, ["explain", str(workload)])
    assert "--limit expression_nodes=…" in str(refused.exception)
    done = CliRunner().invoke(app, ["explain", str(workload), "--limit", "expression_nodes=20000"])
    assert done.exit_code == 0
    assert done.output.splitlines()[1].startswith("1 query over 1 relation")


class Java:
    """A Java process that has ended, or goes on."""

    def __init__(self, *, ended: bool) -> None:
        self.proc, self.ended = self, ended

    def wait(self, seconds: float) -> int:
        if not self.ended:
            raise TimeoutExpired("java", seconds)
        return -9


def chained(*errors: Exception) -> Exception:
    """Return an error that came from those before it."""
    for before, after in pairwise(errors):
        after.__context__ = before
    return errors[-1]


@pytest.mark.parametrize(
    ("error", "ended", "said"),
    [
        (chained(Py4JNetworkError("empty"), ConnectionRefusedError(111, "refused")), True, "Java"),
        (chained(Py4JError("calling o204"), EngineError("the stream stopped: calling o204")), True, "Java"),
        (chained(Py4JError("calling o204"), EngineError("the stream stopped")), False, "the stream stopped"),
        # A database, say, that is away while Spark is well.
        (chained(ConnectionRefusedError(111, "refused"), EngineError("no route")), False, "no route"),
        (EngineError("no queries"), True, "no queries"),
        (Py4JNetworkError("empty"), None, "Java"),
    ],
)
def test_the_end_of_java_is_a_message(
    error: Exception,
    ended: bool | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli_app, "app", fail)
    # None: one that another process has started.
    monkeypatch.setattr(SparkContext, "_gateway", None if ended is None else Java(ended=ended))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    told = "Spark's Java process has ended" if said == "Java" else said
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {told}")


def test_a_bug_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise Py4JError("calling o204")

    monkeypatch.setattr(cli_app, "app", fail)
    monkeypatch.setattr(SparkContext, "_gateway", Java(ended=False))
    with pytest.raises(Py4JError):
        main()
