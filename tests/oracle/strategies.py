"""Hypothesis strategies: the generators of `generate`, with hypothesis making every choice.

A drawn `Random` records what it was asked, so examples replay and shrink; one example evaluates in a few
milliseconds.
"""

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

from tests.oracle import generate
from tests.oracle.cases import Case
from tests.oracle.expressions import Column, Expression
from tests.oracle.generate_queries import random_condition, random_number, random_spec
from tests.oracle.spec import Spec
from tests.oracle.types import Row


def cases(*, queries: int = 3, rows: int = 15) -> st.SearchStrategy[Case]:
    """Whole cases: a schema, batches and queries."""
    return _choices().map(lambda rng: generate.random_case(rng, queries=queries, rows=rows))


def schemas() -> st.SearchStrategy[tuple[Column, ...]]:
    """Columns of every kind, the event time first."""
    return _choices().map(generate.random_schema)


def specs(schema: Sequence[Column], name: str = "q") -> st.SearchStrategy[Spec]:
    """Queries over a schema."""
    return _choices().map(lambda rng: random_spec(rng, name, schema))


def conditions(schema: Sequence[Column]) -> st.SearchStrategy[Expression]:
    """Predicates over a schema."""
    return _choices().map(lambda rng: random_condition(rng, schema))


def numbers(schema: Sequence[Column]) -> st.SearchStrategy[Expression]:
    """Numeric expressions over a schema."""
    return _choices().map(lambda rng: random_number(rng, schema))


def rows(schema: Sequence[Column], time_us: st.SearchStrategy[int | None]) -> st.SearchStrategy[Row]:
    """Rows of a schema whose event times come from a strategy."""
    return st.builds(lambda rng, at: generate.random_row(rng, tuple(schema), at), _choices(), time_us)


@st.composite
def windows(draw: st.DrawFn) -> tuple[int, int, int]:
    """(range_ms, slide_ms, offset_ms): tumbling, sliding, hopping, multiples or not."""
    range_ms, slide_ms = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    return range_ms, slide_ms, draw(st.integers(0, slide_ms - 1))


def times_us() -> st.SearchStrategy[int]:
    """Event times around the epoch, before it, today and at the end of year 9999."""
    near = st.integers(-100_000, 100_000)
    far = st.sampled_from((0, 1_459_069_200_000_000, -2_208_988_800_000_000, 253_402_300_799_000_000))
    return st.builds(lambda a, b: a + b, far, near)


def _choices() -> st.SearchStrategy[Random]:
    return st.randoms(use_true_random=False)
