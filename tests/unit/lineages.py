"""Lineages of checkpoints and of copies of them."""

from weft.sinks.fence import Lineage

NONE = Lineage(incarnations=(), path="state/trades/incarnations")


def after(*commits: int, since: Lineage = NONE) -> Lineage:
    """Return a lineage with incarnations that start after commits, behind those of another."""
    lineage = since
    for commit in commits:
        lineage = lineage.followed(after=commit, by="a test")
    return lineage
