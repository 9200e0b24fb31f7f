"""Benchmarks: ratios taken within one run, never seconds alone.

trades, market, events    data, made by Spark and kept for the next run
predicates, workloads     the queries of the paper and of Scotty
operations, signatures    the paper's operation counts
runs, measure             one run of anything, and many runs by turns
against_spark             Weft, ordinary queries and a scan by turns
equality                  Weft's rows against plain Spark's
fixed_cost, plan_change   what a batch costs, and a query that joins
slices, fragments, windows, memory, churn    the benches
report, plot              their results as tables and pictures
"""
