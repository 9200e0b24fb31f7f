"""Commits and blocks to be written, and what is read back."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.unit.state_samples import EXACT, Asked, Row, block

from weft.durability.checkpoint import Checkpoint, Recovered
from weft.durability.commits import Commit
from weft.durability.declared import Declared
from weft.durability.registry import QueryState, Registered
from weft.expression import Column
from weft.optimizer.plan import Grouping
from weft.state.clock import Clock, RowCounts
from weft.state.running_query import Derivation
from weft.state.store import Block
from weft.storage import Folder
from weft.storage.container import unpack
from weft.types import BIGINT

COUNTS = RowCounts(good=3, late=1, no_time=2, future=4)
GROUPING: Grouping = ((), (Column("symbol", BIGINT),))
ANOTHER: Grouping = ((), ())
BIG = Registered(name="big", text="SELECT 'ü'", failures=2)
PAUSED = Registered(
    name="b", text="", state=QueryState.PAUSED, live=True, answered_through=4, until=9, error="no", commit=3,
    derivation={"predicate": "p", "sources": ["q", "r"], "patterns": [1, 2]},
)  # fmt: skip


def commit(number: int) -> Commit:
    """Return a commit's head."""
    return Commit(
        number=number,
        batch=number + 10,
        stream=Declared(columns={"x": "bigint"}, time="x", unit="s"),
        clock=Clock(watermark=5, oldest=None, newest=-7, counts=COUNTS),
    )


def one_row(start: int = 0, predicates: Sequence[Any] = ("all",)) -> Block:
    """Return the block of one row without a value."""
    return block([Row(start, None, None, None, None)], predicates=predicates)


def wrote(checkpoint: Checkpoint, *blocks: Block) -> None:
    """Make a commit of each block, from 0 on."""
    for number, one in enumerate(blocks):
        checkpoint.write(commit(number), (), {(GROUPING, 0): one}, {})


def recovered(folder: Folder) -> Recovered:
    """Return what another run finds in a checkpoint, which is something."""
    found = Checkpoint(folder).recover()
    assert found is not None
    return found


def restored(
    folder: Folder, predicates: Iterable[Any] = ("all",), derivations: Sequence[Derivation] = ()
) -> list[Block]:
    """Return the blocks of a checkpoint, as a restart takes them in."""
    found = recovered(folder).blocks({GROUPING: list(map(Asked, predicates))}, derivations)
    return [stored.block(EXACT, signatures) for _, stored, signatures in found]


def starts(folder: Folder) -> list[list[int]]:
    """Return the slices of each block that a restart takes in."""
    return [one.starts.tolist() for one in restored(folder)]


def sections(folder: Folder, kind: str, name: str) -> list[str]:
    """Return the names of the sections of a commit or snapshot."""
    return list(unpack(folder.folder(kind).read(name), name=name))


def codebooks(folder: Folder, kind: str, name: str) -> list[str]:
    """Return the names of the codebooks in a commit or snapshot."""
    return [
        one.removeprefix("codebook/") for one in sections(folder, kind, name) if one.startswith("codebook/")
    ]
