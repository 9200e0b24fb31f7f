"""Restore a pipeline from the last commit."""

from collections.abc import Mapping

from weft.durability.checkpoint import Recovered
from weft.durability.ledger import as_it_joined
from weft.optimizer.plan import Grouping
from weft.predicates import Formula
from weft.query.logical import LogicalQuery
from weft.stream.pipeline import Pipeline


def restore(pipeline: Pipeline, queries: Mapping[str, LogicalQuery], recovered: Recovered) -> None:
    """Restore a pipeline from the last commit, for the queries that continue."""
    known = {
        entry.name: as_it_joined(entry, queries[entry.name])
        for entry in recovered.registry
        if entry.name in queries
    }
    pipeline.restore(recovered.last.clock, known)
    relations = pipeline.plan.relations
    predicates: dict[Grouping, list[Formula]] = {}
    for one in relations:
        predicates.setdefault(one.grouping, []).extend(one.predicates)
    derivations = [live.derivation for live in known.values() if live.derivation is not None]
    for grouping, stored, signatures in recovered.blocks(predicates, derivations):
        primitives = {p for one in relations if one.grouping == grouping for p in one.primitives}
        pipeline.stores[grouping].add(stored.block(primitives, signatures))
