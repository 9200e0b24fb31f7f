"""What a stream's checkpoint holds when an engine starts on it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.durability.checkpoint import Checkpoint, Recovered
from weft.durability.incarnations import begin
from weft.durability.places import claim_folder, find_folder
from weft.sinks.fence import Lineage
from weft.storage import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A stream's checkpoint and what was committed to it; all None for a run without a checkpoint."""

    checkpoint: Checkpoint | None = None
    recovered: Recovered | None = None
    """None where nothing was committed yet."""
    lineage: Lineage | None = None
    """Ends with the incarnation that starts now, once that is noted."""

    @property
    def last(self) -> int:
        """The last commit, or −1."""
        return -1 if self.recovered is None else self.recovered.last.number

    @property
    def watermark(self) -> int | None:
        """Where the watermark was with the last commit."""
        return None if self.recovered is None else self.recovered.last.clock.watermark

    def begun(self, stream: str, origin: str) -> "Past":
        """Note in the checkpoint, whose name is the origin, that an engine starts now."""
        if self.checkpoint is None:
            return self
        claim_folder(self.checkpoint.folder, stream, checkpoint=origin)
        return replace(self, lineage=begin(self.checkpoint.folder, after=self.last))


def read_past(root: Folder | None, stream: str, held: Callable[[], None] | None) -> Past:
    """Read what there is of a stream, and mend what a crash left; for who holds the checkpoint's lock."""
    if root is None:
        return Past()
    checkpoint = Checkpoint(find_folder(root, stream), held=held)
    checkpoint.tidy()
    recovered = checkpoint.recover()
    checkpoint.mend_notes(-1 if recovered is None else recovered.last.batch)
    return Past(checkpoint=checkpoint, recovered=recovered)
