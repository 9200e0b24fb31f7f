"""Find the queries that make something fail, so that the others can continue.

A failure counts as the machine's unless it is shown to be a query's: its kind is one that a query can cause,
it occurs again with that query alone, and it does not occur without it.
"""

from collections.abc import Callable, Sequence

from weft.errors import EngineError, UserError
from weft.query.logical import LogicalQuery
from weft.spark.session.causes import root
from weft.spark.session.troubles import is_a_querys, sentence

Trial = Callable[[Sequence[LogicalQuery]], object]
"""Tries with some queries what failed with all of them."""


class _NotAQuerys(Exception):
    """A trial failed in a way that no query can cause."""


def culprits(queries: Sequence[LogicalQuery], trial: Trial, error: Exception) -> dict[str, str]:
    """Return the queries that are shown to cause an error, each with its own; none if it is the machine's.

    Halves of the queries are tried until each culprit stands alone: a few dozen small plans, not thousands.
    """
    if not queries or not is_a_querys(error) or _error(trial, ()) is not None:
        return {}
    try:
        at_fault = _among(queries, trial)
    except _NotAQuerys:
        return {}
    others = [query for query in queries if query.name not in at_fault]
    return at_fault if at_fault and _error(trial, others) is None else {}


def reason(error: Exception) -> str:
    """Return a query's failure in a line: the class and the message of the root cause.

    >>> reason(KeyError("NYSE")), reason(ValueError())
    ("KeyError: 'NYSE'", 'ValueError')
    """
    return str(root(error))


def refusal(query: LogicalQuery, error: Exception) -> EngineError:
    """Return why a query cannot join: it cannot be run, or there is a problem with the machine."""
    if is_a_querys(error):
        return EngineError(f"query {query.name} cannot be run: {reason(error)}")
    return EngineError(f"query {query.name} cannot be tried out: {sentence(error)}")


def _among(queries: Sequence[LogicalQuery], trial: Trial) -> dict[str, str]:
    error = _error(trial, queries)
    if error is None:
        return {}
    if not is_a_querys(error):
        raise _NotAQuerys
    if len(queries) == 1:
        return {queries[0].name: reason(error)}
    half = len(queries) // 2
    return _among(queries[:half], trial) | _among(queries[half:], trial)


def _error(trial: Trial, queries: Sequence[LogicalQuery]) -> Exception | None:
    try:
        trial(queries)
    except UserError:
        # A table that cannot be read, for example: that is reported as it is.
        raise
    except Exception as error:
        # A registered function that is given columns may raise anything.
        return error
    return None
