"""Runs of an engine inside this process: a restart costs no start of Spark."""

from pyspark.sql import SparkSession

from tests.faults.mutants import PROMPT, planted
from tests.faults.site import Site
from weft import Engine, faultpoints
from weft.runtime.clock import Clock


def run(
    spark: SparkSession,
    site: Site,
    *,
    flush: bool = False,
    fault: str | None = None,
    mutant: str | None = None,
) -> Clock:
    """Answer a site's queries over all input there is, and return the stream's clock."""
    engine = Engine(spark)
    engine.load(site.workload.read_text(), base=site.root)
    faultpoints.arm(fault)
    try:
        with planted(PROMPT), planted(mutant or PROMPT):
            engine.run(out=site.out, checkpoint=site.checkpoint, flush=flush, keep=False)
    finally:
        faultpoints.arm(None)
    return engine.clock("events")
