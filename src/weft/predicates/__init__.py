"""Predicates as sets of values: one form for all that mean the same, and codes for what they tell apart."""

from weft.predicates.canonical import canonical
from weft.predicates.codebook import Attribute, Codebook, attributes, codebook, evaluate
from weft.predicates.formula import (
    FALSE,
    TRUE,
    All,
    Any,
    Formula,
    Test,
    all_of,
    any_of,
    cuts_of,
    negation,
    tests,
)
from weft.predicates.values import Cut, Values

__all__ = [
    "FALSE",
    "TRUE",
    "All",
    "Any",
    "Attribute",
    "Codebook",
    "Cut",
    "Formula",
    "Test",
    "Values",
    "all_of",
    "any_of",
    "attributes",
    "canonical",
    "codebook",
    "cuts_of",
    "evaluate",
    "negation",
    "tests",
]
