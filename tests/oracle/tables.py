"""Static tables, and how the reference joins them: every row of the stream with every partner."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.oracle.conditions import compare
from tests.oracle.expressions import Column, Dialect, Expression
from tests.oracle.types import Row, common_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A static table; its columns have names that no stream and no other table uses."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def column(self, name: str) -> Column:
        """Return a column as queries name it."""
        (found,) = (column for column in self.columns if column.name == name)
        return Column(f"{self.name}.{name}", found.of)

    def all_columns(self) -> tuple[Column, ...]:
        """Return every column as queries name it."""
        return tuple(self.column(column.name) for column in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """`[LEFT] JOIN table ON expression = table.column`."""

    table: Table
    on: tuple[tuple[Expression, Column], ...]
    """What the stream's row has, and the table's column (as queries name it) that equals it."""
    left: bool = False

    def apply(self, row: Row) -> Iterator[Row]:
        """Yield the row with each of its partners; a LEFT JOIN keeps one that has none."""
        found = False
        for partner in self.table.rows:
            joined = {**row, **{f"{self.table.name}.{name}": value for name, value in partner.items()}}
            if all(_equal(ours, theirs, joined) for ours, theirs in self.on):
                found = True
                yield joined
        if self.left and not found:
            yield {**row, **{column.name: None for column in self.table.all_columns()}}

    def text(self, dialect: Dialect) -> str:
        """Write the join as it stands in FROM."""
        pairs = [f"{ours.text(dialect)} = {theirs.text(dialect)}" for ours, theirs in self.on]
        return f"{'LEFT ' if self.left else ''}JOIN {self.table.name} ON {' AND '.join(pairs)}"


def joined_rows(row: Row, joins: Sequence[Join]) -> Iterator[Row]:
    """Yield a row of the stream once for every combination of partners."""
    if not joins:
        yield row
        return
    for partner in joins[0].apply(row):
        yield from joined_rows(partner, joins[1:])


def _equal(ours: Expression, theirs: Expression, row: Row) -> bool:
    in_type = common_type(ours.type, theirs.type)
    return compare("=", ours.evaluate(row), theirs.evaluate(row), in_type) is True
