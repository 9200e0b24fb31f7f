"""What all tests share: one Spark session, and how hypothesis runs."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from weft.spark.session.local import local_session

# Machines are shared, so no example has a deadline; CI sees the same examples every time.
settings.register_profile("weft", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("weft")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let plan goldens be written anew."""
    parser.addoption("--update-goldens", action="store_true", help="write tests/goldens/*.txt anew")


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are to be written rather than compared."""
    return bool(request.config.getoption("--update-goldens"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the session, so that `-m spark` and `-m "not spark"` are always right."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    """Have loggers be as they were: a command that fails leaves Py4J's silent, as its process ends."""
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    filters, propagates = list(root.filters), py4j.propagate
    yield
    root.filters[:], py4j.propagate = filters, propagates


@pytest.fixture(scope="session")
def _session() -> Iterator[SparkSession]:
    session = local_session(cores=2, memory="2g", app="weft-tests")
    yield session
    session.stop()


@pytest.fixture
def spark(_session: SparkSession) -> Iterator[SparkSession]:
    """The session of the whole run; streams that a test leaves running are stopped after it."""
    yield _session
    for query in _session.streams.active:
        query.stop()
