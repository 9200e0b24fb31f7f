"""Benchmarks: ratios taken within one run, never seconds alone; docs/benchmarks.md has the rules."""
