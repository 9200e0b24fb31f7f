"""The interface of a receiver of results."""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from weft.errors import UserError

Results = Mapping[str, pa.Table]
"""New results by query: the window's bounds, then what the query selects."""
_KEYS = b"weft.keys"


class SinkError(UserError):
    """A sink that cannot take results at present."""


@runtime_checkable
class Sink(Protocol):
    """A receiver of the results of one stream's commits, in order."""

    @property
    def name(self) -> str:
        """The sink's name, the same after a restart."""

    @property
    def done(self) -> int:
        """The last commit whose results are visible and durable, or −1."""

    def resume(self, after: int, *, origin: str = "") -> None:
        """Start, or start again after an error: the next delivery is that of the commit after `done`.

        `after` is the last commit known to be delivered. Results kept back are dropped, and those made
        visible beyond `after` must not end up twice; `done` may come out larger. `origin` names the history
        that commits are counted in: the checkpoint's id, a space, and the stream's name. It is empty for a
        run without a checkpoint, whose history ends with `close`.
        """

    def deliver(self, commit: int, results: Results) -> None:
        """Take the results of a commit; they may be kept back until `flush`."""

    def flush(self) -> None:
        """Make all delivered results visible and durable."""

    def close(self) -> None:
        """Release connections and the like; results kept back are dropped."""


@runtime_checkable
class Patient(Protocol):
    """A sink that prefers few large writes to many small ones."""

    def flush_due_in(self) -> float:
        """Return the seconds until results kept back should be flushed; infinity if there are none."""


@runtime_checkable
class Refusing(Protocol):
    """A sink that sets aside rows that it cannot take, and goes on with the others."""

    @property
    def refused(self) -> int:
        """Number of rows set aside."""


@runtime_checkable
class Trying(Protocol):
    """A sink that can be tried before any row is read."""

    def try_out(self) -> None:
        """Raise SinkError if results could not be written now; what was there stays as it is."""


@runtime_checkable
class Expecting(Protocol):
    """A sink that prepares for queries before their first results come, if any ever do."""

    def check_free(self, query: str) -> None:
        """Raise an error if a query may not join, as it would take the place of others' results."""

    def expect(self, query: str, schema: pa.Schema) -> None:
        """Prepare for a query that runs or has joined, given its results' columns."""

    def expect_no_more(self, query: str) -> None:
        """Release what was prepared for a query that has left, once its results are delivered."""


@runtime_checkable
class Placed(Protocol):
    """A sink whose results would get mixed up with those of another sink at the same place."""

    @property
    def place(self) -> str:
        """The place, equal for equal ones; it may be shown."""


def with_keys(schema: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    """Return the schema of a query's results with the columns that, with the window, identify a row.

    Only a query that selects all its grouping columns can have such keys.

    >>> keys_of(with_keys(pa.schema([("symbol", pa.string()), ("p", pa.float64())]), ["symbol"]))
    ('symbol',)
    """
    return schema.with_metadata({**(schema.metadata or {}), _KEYS: json.dumps(list(keys)).encode()})


def keys_of(schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the columns that, with the window, identify a row, or None if the schema does not say."""
    keys = (schema.metadata or {}).get(_KEYS)
    return None if keys is None else tuple(json.loads(keys))
