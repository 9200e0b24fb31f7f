"""How far dates reach: Spark counts their days since 1970 in 32 bits."""

MONTHS = (12 * -5_877_640 + 1, 12 * 5_881_579 + 12)
"""The first and last month that lies within dates, as 12 times its year plus its number."""
LAST_WHOLE_MONTH = 2**31 - 32
"""Days before this one lie in months that have a last day."""
