"""Everything that speaks to Spark: sessions, sources, expressions and the one job per batch."""
