"""Upper and lower case of all letters, as in ICU, which Spark uses."""

_NEWER = (
    (0x019B, 0xA7DC, 1), (0x0264, 0xA7CB, 1), (0x1C8A, 0x1C89, 1), (0xA7CD, 0xA7CC, 1), (0xA7CF, 0xA7CE, 1),
    (0xA7D3, 0xA7D2, 1), (0xA7D5, 0xA7D4, 1), (0xA7DB, 0xA7DA, 1), (0x10D70, 0x10D50, 22),
    (0x16EBB, 0x16EA0, 25),
)  # fmt: skip
"""Letters of Unicode 16 and 17, which Python may not know yet: first small letter, first capital, count."""
_CAPITALS = {small + more: capital + more for small, capital, count in _NEWER for more in range(count)}
_SMALL = {capital: small for small, capital in _CAPITALS.items()}


def uppered(word: str) -> str:
    """Return a string in upper case.

    >>> uppered("straße")
    'STRASSE'
    """
    return word.translate(_CAPITALS).upper()


def lowered(word: str) -> str:
    """Return a string in lower case; a sigma at the end of a word has its own.

    >>> lowered("ΟΔΟΣ")
    'οδος'
    """
    return word.translate(_SMALL).lower()
