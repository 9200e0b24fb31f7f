"""Commits and blocks to be written, and what is read back."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.unit.state_samples import (
    EXACT,
    Row,
    block,
)

from weft.expression import Column
from weft.optimizer.plan import Grouping
from weft.runtime.checkpoint import Checkpoint, Commit, StoredQuery, fingerprint
from weft.runtime.clock import Clock, RowCounts
from weft.runtime.state import Block
from weft.types import BIGINT

COUNTS = RowCounts(good=3, late=1, no_time=2, future=4)
GROUPING: Grouping = ((), (Column("symbol", BIGINT),))
ANOTHER: Grouping = ((), ())
KNOWN = {fingerprint(GROUPING): GROUPING}


def commit(number: int, newest_slice: int | None = None, codebooks: tuple[str, ...] = ()) -> Commit:
    """Return a commit of two queries."""
    return Commit(
        number=number,
        batch=number + 10,
        clock=Clock(watermark=5, oldest=None, newest=-7, counts=COUNTS),
        queries=(
            StoredQuery(name="big", text="SELECT 'ü'", first_start=None),
            StoredQuery(name="b", text="", first_start=4),
        ),
        newest_slice=newest_slice,
        stream="(x BIGINT) EVENT TIME x",
        codebooks=codebooks,
    )


def one_row(start: int = 0, predicates: Sequence[Any] = ("all",)) -> Block:
    """Return the block of one row without a value."""
    return block([Row(start, None, None, None, None)], predicates=predicates)


def restored(checkpoint: Checkpoint, predicates: Iterable[Any] = ("all",)) -> list[Block]:
    """Return the blocks of a checkpoint, as a restart takes them in."""
    found = checkpoint.blocks(KNOWN, predicates)
    return [stored.block(EXACT, signatures) for _, stored, signatures in found]


def codebooks(checkpoint: Checkpoint) -> list[str]:
    """Return the names of the codebooks on disk."""
    return sorted(path.stem for path in (checkpoint.folder / "codebooks").iterdir())


def numbers(checkpoint: Checkpoint) -> list[int]:
    """Return the numbers of the commits on disk."""
    return [one.number for one in checkpoint.commits()]
