"""What a stream reads: declarations, files, records, tables, and rows that cannot be used."""
