"""Expressions evaluated in the driver, vectorised, with exactly Spark's results."""

from weft.evaluation.evaluator import Evaluator
from weft.evaluation.implementations import can_evaluate

__all__ = ["Evaluator", "can_evaluate"]
