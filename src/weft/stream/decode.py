"""Read a job's result: counts of rows, and a block for each relation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import Partial, Primitive, bags, combine, from_arrow, kept
from weft.aggregates.bags import encoded, whole_or_double
from weft.optimizer.cost import Fragmentation
from weft.optimizer.plan import Grouping, Relation, SharedPlan
from weft.predicates import Formula
from weft.spark.job.batch_groups import FRAGMENT, NEWEST, OLDEST, READ, ROWS, SLICE, BatchGroups, Slot
from weft.spark.job.fragment_coder import IN_NO_FRAGMENT, Numbered
from weft.spark.job.job import BatchJob
from weft.spark.job.verdicts import CORRUPT, FUTURE, LATE, NO_TIME
from weft.state.clock import RowCounts, Seen
from weft.state.groups import distinct_rows
from weft.state.store import Block
from weft.stream.plan_in_effect import ActivePlan


def seen(job: BatchJob, result: BatchGroups) -> Seen:
    """Return what the batch showed of rows and times."""
    counted = result.counts.filter(pa.array(result.fragment < job.fragments.counting_end()))
    fragment = np.asarray(counted[FRAGMENT])
    read = np.asarray(counted[READ] if READ in counted.column_names else counted[ROWS])
    good = counted.filter(pa.array(fragment >= IN_NO_FRAGMENT))
    return Seen(
        counts=RowCounts(
            good=int(read[fragment >= IN_NO_FRAGMENT].sum()),
            late=int(read[fragment == LATE].sum()),
            no_time=int(read[fragment == NO_TIME].sum()),
            future=int(read[fragment == FUTURE].sum()),
            corrupt=int(read[fragment == CORRUPT].sum()),
        ),
        oldest=pc.min(good[OLDEST]).as_py(),
        newest=pc.max(good[NEWEST]).as_py(),
    )


def failures(job: BatchJob, result: BatchGroups) -> dict[str, int]:
    """Return how many rows failed in each query, where any did."""
    failed: dict[str, int] = {}
    for column, queries in job.failures.queries.items():
        count = pc.sum(result.counts[column]).as_py() or 0
        if count:
            failed |= {name: failed.get(name, 0) + count for name in queries}
    for column, answers in job.failures.answers.items():
        if not pc.sum(result.counts[column]).as_py():
            continue
        counts = np.bincount(
            np.maximum(result.fragment, IN_NO_FRAGMENT),
            weights=np.asarray(result.counts[column]),
            minlength=max(one.end for one in job.fragments.numbered),
        )
        for answer in answers:
            numbered = job.fragments.numbered[job.index_of[answer.relation]]
            mine = numbered.signatures.column(answer.predicate)
            count = int(counts[numbered.first : numbered.end][mine].sum())
            if count:
                failed[answer.query.name] = failed.get(answer.query.name, 0) + count
    return failed


def blocks(active: ActivePlan, result: BatchGroups) -> dict[tuple[Grouping, int], Block]:
    """Return the blocks of all roots, by grouping and id."""
    return {
        (root.grouping, root.id): block(active.job, index, result)
        for index, root in enumerate(active.job.relations)
    }


def block(job: BatchJob, index: int, result: BatchGroups) -> Block:
    """Return the block of the job's relation with that index."""
    relation, numbered = job.relations[index], job.fragments.numbered[index]
    names = [slot.name for slot in job.layout.keys[index]]
    slots = job.layout.primitives[index]
    fields = dict.fromkeys(field for slot in slots for field in _fields(slot))
    columns = dict.fromkeys((SLICE, FRAGMENT, ROWS, *names, *fields))
    rows = result.of_relation(index, numbered.first, numbered.end, list(columns))
    slotted = list(zip(relation.primitives, slots, strict=True))
    whole = Block(
        starts=job.coders[index].starts(np.asarray(rows[SLICE])),
        keys=rows.select(names),
        fragments=(np.asarray(rows[FRAGMENT]) - numbered.first).astype(np.int32),
        signatures=numbered.signatures,
        partials={
            primitive: from_arrow(primitive, [rows[field] for field in _fields(slot)])
            for primitive, slot in slotted
            if slot is None or not slot.is_bag
        },
        rows=pc.sum(rows[ROWS]).as_py() or 0,
    )
    bagged = {primitive: slot for primitive, slot in slotted if slot is not None and slot.is_bag}
    return _with_bags(whole, rows, bagged) if bagged else whole


def _with_bags(block: Block, rows: pa.Table, bagged: Mapping[Primitive, Slot]) -> Block:
    """Return a block whose rows have one value of each bag as one with a row for each shard, and bags.

    A job groups rows by the values of bags, too; here these are counted, and all else is combined.
    """
    shards = block.keys.append_column("start", pa.array(block.starts))
    firsts, shard = distinct_rows(shards.append_column("fragment", pa.array(block.fragments)))
    order = np.argsort(shard, kind="stable")
    lo = np.searchsorted(shard[order], np.arange(len(firsts)))
    hi = np.append(lo[1:], len(order))
    partials = {own: combine(own, partial.take(order), lo, hi) for own, partial in block.partials.items()}
    for primitive, slot in bagged.items():
        value, *others = (rows[field] for field in slot.fields())
        times, weights = others[: slot.grouped_by - 1], others[slot.grouped_by - 1 :]
        known = np.flatnonzero(np.asarray(value.is_valid()))
        codes, dictionary = encoded(value.combine_chunks().drop_null())
        column = bags(
            shard[known], len(firsts), codes, dictionary, counts=np.asarray(rows[ROWS])[known],
            order=np.asarray(pc.fill_null(times[0], 0))[known] if times else None,
            weights=whole_or_double(weights[0])[known] if weights else None,
        )  # fmt: skip
        partials[primitive] = kept(primitive, Partial((column,), None, primitive.types))
    whole = replace(block, partials={}).take(firsts)
    return replace(whole, partials=partials)


def fragmentations(
    plan: SharedPlan, job: BatchJob, result: BatchGroups, rows: int
) -> list[tuple[Relation, Fragmentation]]:
    """Return how the predicates of each shared relation split a batch of so many good rows."""
    return [
        (relation, fragmentation(job.fragments.numbered[job.index_of[relation.id]], result, rows))
        for relation in plan.roots
        if relation.shared
    ]


def fragmentation(numbered: Numbered, result: BatchGroups, rows: int) -> Fragmentation:
    """Return the paper's k, α and β of a relation in a batch of so many good rows.

    The relation is shared: where rows are aggregated once for each predicate, nothing tells what else they
    satisfy, and neither k nor β can be counted.
    """
    counts = result.rows_in_fragments[numbered.first : numbered.end]
    # Of thousands of fragments a batch has a few.
    present = np.flatnonzero(counts)
    cardinality = numbered.signatures.count(present)
    return Fragmentation(
        rows=rows,
        fragments=len(present),
        alpha=float((counts[present] * cardinality).sum()) / rows if rows else 0.0,
        beta=float(cardinality.mean()) if len(present) else 0.0,
    )


def unshared_operations(job: BatchJob, readers: Sequence[Counter[Formula]], result: BatchGroups) -> int:
    """Return how many rows the queries would aggregate if each ran alone.

    `readers` tells, for each relation, how many queries ask for each predicate.
    """
    total = 0.0
    for numbered, reading in zip(job.fragments.numbered, readers, strict=True):
        mine = result.rows_in_fragments[numbered.first : numbered.end]
        present = np.flatnonzero(mine)
        asked = np.array([reading[one] for one in numbered.predicates])
        # Counting bits is many times as fast as multiplying them, and most predicates are asked for once.
        for times in np.unique(asked):
            satisfied = numbered.signatures.count(present, asked == times)
            total += float(times * (mine[present] @ satisfied))
    return round(total)


def _fields(slot: Slot | None) -> tuple[str, ...]:
    return (ROWS,) if slot is None else slot.fields()
