"""Partials back to the oldest open window, and the stream's clock."""
