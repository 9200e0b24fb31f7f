"""From partials to the results of windows that are due."""
