"""What a receiver of results is."""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from weft.errors import UserError

Results = Mapping[str, pa.Table]
"""New results by query: the window's bounds, then what the query selects."""
_KEYS = b"weft.keys"


class SinkError(UserError):
    """A sink that cannot take results as things are."""


@runtime_checkable
class Sink(Protocol):
    """A receiver of the results of one stream's commits, in order."""

    @property
    def name(self) -> str:
        """What the sink is called, the same after a restart."""

    @property
    def done(self) -> int:
        """The last commit whose results are visible and durable, or −1."""

    def resume(self, after: int, *, origin: str = "") -> None:
        """Begin, or begin again after an error: the next delivery is that of the commit after `done`.

        `after` is the last commit known to be delivered. What is kept back is forgotten, and what was made
        visible beyond `after` must not end up twice; `done` may come out larger. `origin` names the history
        that commits are counted in: the checkpoint's name, a space, and the stream's; or it is empty, for a
        history that nothing outlives: it ends with `close`.
        """

    def deliver(self, commit: int, results: Results) -> None:
        """Take the results of a commit; they may be kept back until `flush`."""

    def flush(self) -> None:
        """Make all that was delivered visible and durable."""

    def close(self) -> None:
        """Let go of connections and the like; what is kept back is forgotten."""


@runtime_checkable
class Patient(Protocol):
    """A sink that prefers few large pieces to many small ones."""

    def flush_due_in(self) -> float:
        """Return in how many seconds to flush what is kept back; infinity if there is nothing."""


@runtime_checkable
class Refusing(Protocol):
    """A sink that sets rows aside which it cannot take, and goes on with the others."""

    @property
    def refused(self) -> int:
        """How many rows it has set aside."""


def with_keys(schema: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    """Return the schema of a query's results with a note of which columns, with the window, identify a row.

    Only a query that selects all it groups by can have the note.

    >>> keys_of(with_keys(pa.schema([("symbol", pa.string()), ("p", pa.float64())]), ["symbol"]))
    ('symbol',)
    """
    return schema.with_metadata({**(schema.metadata or {}), _KEYS: json.dumps(list(keys)).encode()})


def keys_of(schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the columns that, with the window, identify a row, or None if the schema does not say."""
    noted = (schema.metadata or {}).get(_KEYS)
    return None if noted is None else tuple(json.loads(noted))
