"""A running engine as its users see it: changes, requests, status."""
