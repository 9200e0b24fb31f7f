"""Signatures, packed, say what their bits said."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.predicates import signatures as signatures_module
from weft.predicates.signatures import packed_across, signatures_of


@st.composite
def tables(draw: st.DrawFn) -> list[list[bool]]:
    """Draw rows of one width."""
    width = draw(st.integers(0, 20))
    return draw(st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=9))


@settings(max_examples=80)
@given(tables(), st.data(), st.sampled_from((1, 25, 1 << 24)))
def test_packed_signatures_say_what_their_bits_said(
    table: list[list[bool]], data: st.DataObject, unpacked: int
) -> None:
    width = len(table[0])
    bits = np.array(table, dtype=bool).reshape(len(table), width)
    predicates: Any = tuple(range(width))
    some = signatures_of(predicates, bits)
    chosen = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=6))
    asked = data.draw(st.lists(st.booleans(), min_size=width, max_size=width))
    new = data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table)))
    index, new_predicate = np.array(chosen, dtype=np.intp), predicates_end(width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signatures_module, "_UNPACKED", unpacked)
        counts = some.count(index).tolist()
        of_asked = some.count(slice(None), np.array(asked, dtype=bool)).tolist()
    assert (len(some), some.bits.tolist()) == (len(table), table)
    assert [some.column(one).tolist() for one in predicates] == bits.T.tolist()
    assert counts == [sum(table[row]) for row in chosen]
    assert of_asked == [sum(bit and wanted for bit, wanted in zip(row, asked, strict=True)) for row in table]
    assert some.take(index).bits.tolist() == [table[row] for row in chosen]
    assert some.and_also(some.take(index)).bits.tolist() == [*table, *(table[row] for row in chosen)]
    longer = some.extended(new_predicate, np.array(new, dtype=bool))
    assert longer.bits.tolist() == [[*row, bit] for row, bit in zip(table, new, strict=True)]
    assert longer.predicates == (*predicates, new_predicate)
    assert some.bits.tolist() == table
    assert (packed_across(np.ascontiguousarray(bits.T)) == some.packed).all()


def predicates_end(width: int) -> Any:
    """Return a predicate that comes after others."""
    return width
