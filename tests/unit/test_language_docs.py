"""The reference runs: each of its blocks parses and binds, and it names every function."""

import re
from pathlib import Path

import pytest

from weft.aggregates.aggregate_functions import AGGREGATES, called
from weft.query import CreateQuery, CreateStream, CreateTable, bind, parse
from weft.query.allowed_functions import SPELLINGS
from weft.query.logical import Catalog

PAGE = (Path(__file__).parents[2] / "docs" / "query-language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def catalog() -> Catalog:
    statements = [statement for block in BLOCKS for statement in parse(block)]
    return Catalog(
        streams=tuple(one.definition for one in statements if isinstance(one, CreateStream)),
        tables=tuple(one.definition for one in statements if isinstance(one, CreateTable)),
    )


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_reference_is_understood(block: str) -> None:
    statements = parse(block)
    assert statements
    for statement in statements:
        if isinstance(statement, CreateQuery):
            assert bind(statement, catalog()).name == statement.name


def test_the_whole_page_is_one_workload() -> None:
    assert len(parse(";".join(BLOCKS))) == sum(len(parse(block)) for block in BLOCKS)


@pytest.mark.parametrize(
    "name",
    sorted({*(one.name for one in SPELLINGS.values()), *(a.name for a in AGGREGATES if called(a.name))}),
)
def test_every_function_is_named(name: str) -> None:
    assert re.search(rf"\b{re.escape(name)}\b", PAGE, re.IGNORECASE) or name == "%"
