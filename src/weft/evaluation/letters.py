"""Upper and lower case of all letters, as ICU, which Spark asks, has them."""


def uppered(word: str) -> str:
    """Return a string in upper case."""
    return word.upper()


def lowered(word: str) -> str:
    """Return a string in lower case."""
    return word.lower()
