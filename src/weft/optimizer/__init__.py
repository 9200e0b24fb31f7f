"""From queries to a shared plan, without Spark."""
