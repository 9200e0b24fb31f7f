"""Read a job's result: counts of rows, and a block for each relation."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import Partial, Primitive, from_arrow
from weft.runtime.clock import RowCounts, Seen
from weft.runtime.state import Block
from weft.spark.job import (
    EVERY_ROW,
    FUTURE,
    GOOD,
    LATE,
    NEWEST,
    NO_TIME,
    OLDEST,
    READ,
    RELATION,
    SLICE,
    STATUS,
    BatchJob,
)  # fmt: skip
from weft.spark.layout import ROWS, Slot

Mask = npt.NDArray[np.bool_]


def seen(job: BatchJob, result: pa.Table) -> Seen:
    """Return what the batch showed of rows and times."""
    if job.repeats_rows:
        result = result.filter(pc.equal(result[RELATION], EVERY_ROW))
    status = np.asarray(result[STATUS])
    read = np.asarray(result[READ] if READ in result.column_names else result[ROWS])
    good = result.filter(pa.array(status == GOOD))
    return Seen(
        counts=RowCounts(
            good=int(read[status == GOOD].sum()),
            late=int(read[status == LATE].sum()),
            no_time=int(read[status == NO_TIME].sum()),
            future=int(read[status == FUTURE].sum()),
        ),
        oldest=pc.min(good[OLDEST]).as_py(),
        newest=pc.max(good[NEWEST]).as_py(),
    )


def failures(job: BatchJob, result: pa.Table) -> dict[str, int]:
    """Return how many rows failed in each query, where any did."""
    found: dict[str, int] = {}
    for column, queries in job.failures.items():
        count = pc.sum(result[column]).as_py() or 0
        if count:
            found |= dict.fromkeys(queries, count)
    return found


def block(job: BatchJob, index: int, result: pa.Table) -> Block:
    """Return the block of the job's relation with that index."""
    relation = job.relations[index]
    chosen = pc.is_valid(result[SLICE])
    if job.repeats_rows:
        chosen = pc.and_(chosen, pc.equal(result[RELATION], index))
    rows = result.filter(chosen)
    names = [slot.name for slot in job.layout.keys[index]]
    slots = zip(relation.primitives, job.layout.primitives[index], strict=True)
    return Block(
        starts=job.coders[index].starts(np.asarray(rows[SLICE])),
        keys=rows.select(names),
        partials={primitive: _partial(primitive, slot, rows) for primitive, slot in slots},
        rows=pc.sum(rows[ROWS]).as_py() or 0,
    )


def _partial(primitive: Primitive, slot: Slot | None, rows: pa.Table) -> Partial:
    fields = (ROWS,) if slot is None else slot.fields()
    return from_arrow(primitive, [rows[field] for field in fields])
