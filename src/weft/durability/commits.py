"""The head of a commit: where a stream stood after it, as it is stored."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from weft.errors import EngineError
from weft.state.clock import Clock, RowCounts

_FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The state of a stream after a commit."""

    number: int
    batch: int
    """The last of Spark's batches in it."""
    stream: str
    """The stream's columns and time, as declared then."""
    clock: Clock
    position: str = ""
    """What the batch was made of, by Spark's notes; empty if that is not known."""


def commit_bytes(commit: Commit, changes: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a commit, and what changed of queries, as stored."""
    return json.dumps({"format": _FORMAT, **asdict(commit), "queries": list(changes)}).encode()


def read_commit(stored: bytes, place: str) -> tuple[Commit, list[dict[str, Any]]]:
    """Return a commit and what changed of queries; `place` is the checkpoint, for messages."""
    record = json.loads(stored)
    if record.pop("format") != _FORMAT:
        raise EngineError(f"checkpoint {place} was written by another version of Weft; start a new one")
    changes = record.pop("queries")
    clock = record.pop("clock")
    counts = RowCounts(**clock.pop("counts"))
    return Commit(**record, clock=Clock(**clock, counts=counts)), changes
