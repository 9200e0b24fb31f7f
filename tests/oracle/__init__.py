"""The oracle: a naive evaluator of windowed aggregate queries that shares no code with Weft.

In flow order:

- `types`: SQL types, and Spark's rules for decimals.
- `expressions`, `arithmetic`, `conditions`, `matching`, `functions`, `more_functions`, `registered`:
  expressions that evaluate in Python and render themselves to SQL.
- `aggregates`: exact aggregates over a list of values.
- `tables`: static tables and joins.
- `spec`: one query.
- `render`: a query as text, for Weft and for plain Spark.
- `reference`, `results`: window assignment and the replay of a stream in micro-batches; what it gives.
- `compare`: expected against actual, as multisets.
- `cases`: a schema, batches and queries, as pyarrow tables too.
- `generate`, `generate_queries`: random cases from a `random.Random`.
- `pools`, `generate_predicates`, `rephrase`, `generate_workload`: random workloads of many predicates whose
  thresholds meet the data and each other.
- `strategies`: the same as hypothesis strategies.

    case = random_case(seed=7)                 # or random_workload(seed=7)
    run = case.expected()                      # or expected(flush=False), then run.batches[b].results[name]
    for spec in case.specs:
        text = spec.sql(STREAM, TIME)          # also WindowSyntax.FUNCTION, and spec.spark_sql(view, TIME)
        assert_same(spec, run.results(spec.name), table_from_weft)
"""
