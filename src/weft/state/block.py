"""The partials of a relation that one batch gave."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Partial, Primitive
from weft.state.signatures import Signatures

Times = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The partials of a relation that one batch gave."""

    starts: Times
    """The start of each row's slice, in microseconds."""
    keys: pa.Table
    fragments: Numbers
    """Each row's fragment, as a row of the signatures."""
    signatures: Signatures
    partials: dict[Primitive, Partial]
    rows: int = 0
    """How many rows were aggregated into it."""

    def __len__(self) -> int:
        return len(self.starts)

    def since(self, start: int) -> "Block":
        """Return the part whose slices begin at a time or later."""
        kept = np.flatnonzero(self.starts >= start)
        if len(kept) == len(self):
            return self
        return replace(
            self,
            starts=self.starts[kept],
            keys=self.keys.take(kept) if self.keys.num_columns else self.keys.slice(0, len(kept)),
            fragments=self.fragments[kept],
            partials={primitive: partial.take(kept) for primitive, partial in self.partials.items()},
        )
