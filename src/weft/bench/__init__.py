"""Benchmarks: ratios taken within one run, never seconds alone; the rules are in docs/benchmarks.md.

benches, bench, options    all benches; what each is and what runs it; what each is asked
measure, records, report   runs by turns; their figures; what tables and pictures have in common
trades, market, events,
departures, flights        data, made once and kept for the next run
workloads, predicates      the queries of the paper and of Scotty, drawn from seeds
operations, signatures     the paper's operation counts
runs, contenders           one run of Weft, ordinary Spark or DuckDB, durable
equality, same_rows        Weft's rows against those of others
against_spark, figures     Weft, ordinary queries and a scan by turns, and what all rounds found
fixed_cost, plan_change    what a batch costs, and a query that joins
"""
