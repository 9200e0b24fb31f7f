"""The loop: batches in, blocks kept, due windows answered, results delivered."""
