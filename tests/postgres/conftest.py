"""One server for all tests, and for each test a database of its own."""

from collections.abc import Iterator
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.postgres.server import running_server

_numbers = count()


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    with running_server() as dsn:
        yield dsn


@pytest.fixture
def dsn(_server: str) -> str:
    """The connection string of an empty database."""
    name = f"weft{next(_numbers)}"
    with psycopg.connect(_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return urlunsplit(urlsplit(_server)._replace(path=f"/{name}"))
