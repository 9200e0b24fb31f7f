"""The Spark job of a plan: from a batch's rows to partials."""
