"""The oracle: a naive evaluator of windowed aggregate queries that shares no code with Weft.

In flow order:

- `types`: SQL types, and Spark's rules for decimals.
- `expressions`, `arithmetic`, `conditions`, `functions`: expressions that evaluate in Python and render
  themselves to SQL.
- `aggregates`: exact aggregates over a list of values.
- `spec`: one query.
- `render`: a query as text, for Weft and for plain Spark.
- `reference`: window assignment and the replay of a stream in micro-batches.
- `compare`: expected against actual, as multisets.
- `generate`: random schemas, rows, batches and queries from a `random.Random`.
- `strategies`: the same as hypothesis strategies.
"""
