"""What happens to a batch, from its rows to the commit."""
