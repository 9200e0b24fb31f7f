"""The PostgreSQL sink fails in each phase of a delivery, or dies in it."""

from pathlib import Path

import psycopg
import pytest

from tests.faults.outlet import PHASES, QUERIES, everything
from tests.faults.phases import fail_once, kill_and_go_on


def assert_each_row_once(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for query in QUERIES:
            found = connection.execute(f"SELECT x FROM {query} ORDER BY x".encode()).fetchall()
            assert [x for (x,) in found] == everything()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", PHASES)
def test_an_error_in_any_phase_leaves_each_row_once(
    dsn: str, tmp_path: Path, point: str, nth: int, restart: bool
) -> None:
    fail_once("postgres", dsn, tmp_path / "notes", point, nth=nth, restart=restart)
    assert_each_row_once(dsn)


@pytest.mark.parametrize("point", PHASES)
def test_a_kill_in_any_phase_leaves_each_row_once(dsn: str, tmp_path: Path, point: str) -> None:
    kill_and_go_on("postgres", dsn, tmp_path / "notes", point, nth=2)
    assert_each_row_once(dsn)
