"""The names in a query: columns of the stream and of the tables joined to it."""

from collections.abc import Mapping
from dataclasses import dataclass

from weft.errors import AmbiguousName, NotAllowed, TypeMismatch, UnknownName, suggestion
from weft.expression import Column
from weft.query.logical import ColumnDef, StreamDef, TableDef
from weft.query.syntax import Name
from weft.types import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A stream or table in FROM."""

    what: str
    """For messages: "stream trades"."""
    name: str
    label: str
    """What the user calls it: alias or name."""
    prefix: str
    """Empty for the stream; its columns' first part in expressions for a table."""
    columns: Mapping[str, ColumnDef]
    """By folded name."""

    @classmethod
    def of(cls, definition: StreamDef | TableDef, what: str, alias: str | None, prefix: str) -> "Input":
        """Return a declared stream or table as an input."""
        return cls(
            what=f"{what} {definition.name}", name=definition.name, label=alias or definition.name,
            prefix=prefix, columns={column.name.casefold(): column for column in definition.columns},
        )  # fmt: skip

    def column(self, definition: ColumnDef, name: Name) -> Column:
        """Return a reference to one of its columns."""
        if definition.type.kind is Kind.OTHER:
            problem = f'column "{definition.name}" has a type that queries cannot use'
            raise TypeMismatch(f"{problem}; use a plain column", span=name.span)
        full = f"{self.prefix}.{definition.name}" if self.prefix else definition.name
        return Column(full, definition.type, name.span)

    def called(self, qualifier: str) -> bool:
        """Say whether a qualifier means this input."""
        return qualifier.casefold() == self.label.casefold()


@dataclass(frozen=True, slots=True)
class Scope:
    """The inputs of a query, the stream first."""

    inputs: tuple[Input, ...]
    merged: frozenset[str] = frozenset()
    """Columns of JOIN … USING: unqualified, they are those of the first input that has them."""

    def has(self, name: Name) -> bool:
        """Say whether a name is a column."""
        return bool(self._holders(name))

    def resolve(self, name: Name) -> Column:
        """Return the column that a name means."""
        key = name.parts[-1].casefold()
        holders = self._holders(name)
        if not holders:
            raise self._unknown(name)
        if len(holders) > 1 and not (len(name.parts) == 1 and key in self.merged):
            where = " and in ".join(holder.what for holder in holders)
            choices = " or ".join(f"{holder.label}.{name.parts[-1]}" for holder in holders)
            problem = f'column "{name.parts[-1]}" is in {where}; write {choices}'
            raise AmbiguousName(problem, span=name.span)
        return holders[0].column(holders[0].columns[key], name)

    def _holders(self, name: Name) -> list[Input]:
        *qualifier, column = name.parts
        key = column.casefold()
        if len(qualifier) > 1:
            return []
        return [
            input
            for input in self.inputs
            if key in input.columns and (not qualifier or input.called(qualifier[0]))
        ]

    def shown(self, column: Column) -> str:
        """Return a column as the user would write it."""
        for input in self.inputs:
            if input.prefix and column.name.startswith(input.prefix + "."):
                return f"{input.label}.{column.name[len(input.prefix) + 1 :]}"
        return column.name

    def _unknown(self, name: Name) -> UnknownName | NotAllowed:
        *qualifier, column = name.parts
        if "_".join(name.parts).casefold() in ("window_start", "window_end"):
            problem = f"{'.'.join(name.parts)} is known only after aggregation; use it in SELECT or HAVING"
            return NotAllowed(problem, span=name.span)
        called = [input for input in self.inputs if not qualifier or input.called(qualifier[0])]
        nested = not called and any(qualifier[0].casefold() in input.columns for input in self.inputs)
        if len(qualifier) > 1 or nested:
            problem = "fields of nested columns are not in the language; use a plain column"
            return NotAllowed(problem, span=name.span)
        if not called:
            hint = suggestion(qualifier[0], [input.label for input in self.inputs])
            problem = f'"{qualifier[0]}" is neither the stream nor a table of this query{hint}'
            return UnknownName(problem, span=name.span)
        known = [definition.name for input in called for definition in input.columns.values()]
        where = " or ".join(input.what for input in called)
        return UnknownName(f'unknown column "{column}" in {where}{suggestion(column, known)}', span=name.span)
