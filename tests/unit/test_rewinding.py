"""Taking sinks back: to what both have, also where a sink cannot tell any more what it has."""

from collections.abc import Sequence
from pathlib import Path

from tests.unit.checkpoint_samples import one_row, recovered, wrote
from tests.unit.lineages import after
from tests.unit.test_parquet_fence import ORIGIN, fenced, give
from tests.unit.test_sinks_parquet import written

from weft.durability.checkpoint import Checkpoint
from weft.durability.past import Past, Rewind, rewind
from weft.sinks import ParquetSink
from weft.storage import LocalFolder


def test_a_damaged_claim_is_written_anew_behind_what_is_known_to_be_there(tmp_path: Path) -> None:
    state, out, first, shown = LocalFolder(tmp_path / "state"), tmp_path / "out", after(-1), list[Rewind]()
    checkpoint = Checkpoint(state)
    wrote(checkpoint, *(one_row(number) for number in range(4)))
    give(fenced(out, first, -1), range(4))
    checkpoint.set_delivered("parquet", 1)
    [claim] = out.glob("_weft-*-claim.json")
    claim.write_bytes(claim.read_bytes()[:9])
    second = after(3, since=first)
    past = Past(checkpoint=checkpoint, recovered=recovered(state), lineage=second)

    def agree(rewinds: Sequence[Rewind]) -> bool:
        shown.extend(rewinds)
        return True

    rewind([ParquetSink(LocalFolder(out))], "trades", past, origin=ORIGIN, approve=agree)
    [told] = shown
    assert (told.commit, [one.rows for one in told.surplus], written(out, "a")) == (1, [2], [0, 1])
    give(fenced(out, second, 1), range(2, 4))
    assert written(out, "a") == [0, 1, 2, 3]
