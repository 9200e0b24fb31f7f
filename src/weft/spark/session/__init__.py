"""A Spark session, the Java below it, and what its errors mean."""
