"""What outlives the process: commits, snapshots, the registry of queries."""
