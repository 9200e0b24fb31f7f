"""Deliveries that are closed after a test."""

from collections.abc import Callable, Iterator

import pytest
from tests.unit.deliveries import FAST

from weft.sinks import Delivery


@pytest.fixture
def deliver() -> Iterator[Callable[..., Delivery]]:
    """Makes deliveries, and closes them."""
    made: list[Delivery] = []

    def make(*args: object, **options: object) -> Delivery:
        made.append(Delivery(*args, **{"limits": FAST, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()
