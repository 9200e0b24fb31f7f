"""Benchmarks: ratios taken within one run, never seconds alone.

trades, events    data, made by Spark and kept for the next run
workloads         the queries of the paper and of Scotty
operations        the paper's operation counts
runs, measure     one run of anything, and many runs by turns
equality          Weft's rows against plain Spark's
slices, windows, memory   the three benches
report, plot      their results as tables and pictures
"""
