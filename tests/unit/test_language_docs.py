"""The reference runs: each of its blocks parses and binds; the page of functions names them all."""

import re
from pathlib import Path

import pytest
from tests.spark.evaluation_cases import MAKERS, cases
from tests.unit.function_page import page

from weft.aggregates.aggregate_functions import CALLED
from weft.query import CreateQuery, CreateStream, CreateTable, bind, parse
from weft.query.allowed_functions import GROUPS, SPELLINGS
from weft.query.expression_grammar import SUGAR
from weft.query.logical import Catalog
from weft.types import Kind

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "query-language.md").read_text(encoding="utf-8")
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


def test_the_page_of_functions_is_what_their_tables_say(update_goldens: bool) -> None:
    path = DOCS / "functions.md"
    if update_goldens:
        path.write_text(page(), "utf-8")
    assert path.read_text("utf-8") == page()


def test_types_on_the_page_are_those_of_calls() -> None:
    named = {str(kind).upper(): kind for kind in Kind}
    told = {one.name: one.result.gives for functions in GROUPS.values() for one in functions}
    for made in cases(*MAKERS):
        if told.get(made.function) in named:
            assert made.type.kind is named[told[made.function]], made
    assert sum(gives in named for gives in told.values()) > 80


def test_the_page_names_every_function() -> None:
    for name in {*SPELLINGS, *SUGAR, *CALLED}:
        assert f"`{name}`" in page()
