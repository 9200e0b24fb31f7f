"""Benchmarks: ratios taken within one run, never seconds alone; the rules are in docs/benchmarks.md.

options                   what every bench is asked
trades, market, events    data, made by Spark and kept for the next run
predicates, workloads     the queries of the paper and of Scotty, drawn from seeds
operations, signatures    the paper's operation counts
runs, measure             one run of anything, durable, and many runs by turns
against_spark, figures    Weft, ordinary queries and a scan by turns, and what all rounds found
sets                      each number of rows and queries, and each seed
equality                  Weft's rows against plain Spark's
fixed_cost, plan_change   what a batch costs, and a query that joins
slices, fragments, ways, windows, memory, churn    the benches
report, plot              their results as tables and pictures
"""
