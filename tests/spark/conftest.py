"""What tests with Spark share."""

from pathlib import Path

import pytest

from tests.spark.trades import Feed


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """Return what writes the files of a stream of trades."""
    return Feed(tmp_path / "trades")
