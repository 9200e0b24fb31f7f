"""Runs of an engine inside this process: a restart costs no start of Spark."""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from tests.faults.conditions import PROMPT
from tests.faults.mutants import planted
from tests.faults.site import Site
from weft import Engine, faultpoints
from weft.limits import Limits
from weft.sinks import Sink
from weft.state.clock import Clock


def engine_of(spark: SparkSession, site: Site, *, limits: Limits | None = None) -> Engine:
    """Return an engine with a site's queries."""
    engine = Engine(spark) if limits is None else Engine(spark, limits=limits)
    engine.load(site.workload.read_text(), base=site.root)
    return engine


def run(
    spark: SparkSession,
    site: Site,
    *,
    flush: bool = False,
    fault: str | None = None,
    mutant: str | None = None,
    sinks: Iterable[Sink] = (),
    limits: Limits | None = None,
) -> Clock:
    """Answer a site's queries over all input there is, and return the stream's clock."""
    engine = engine_of(spark, site, limits=limits)
    faultpoints.arm(fault)
    try:
        with planted(PROMPT), planted(mutant or PROMPT):
            engine.run(
                out=site.out, checkpoint=site.place, late=site.late, flush=flush, keep=False, sinks=sinks
            )
    finally:
        faultpoints.arm(None)
    return engine.clock("events")
