"""Random workloads: many queries over one stream whose predicates, windows, groups and joins overlap.

Rows and thresholds come from the same pools; predicates share atoms, repeat each other in other words, fail
on some rows; queries come and go between batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.oracle.aggregates import Aggregate
from tests.oracle.arithmetic import Arithmetic
from tests.oracle.cases import TIME, Case
from tests.oracle.expressions import Column, Expression, Literal
from tests.oracle.functions import Cast
from tests.oracle.generate import random_cuts, random_times, random_value
from tests.oracle.generate_predicates import Inputs, random_atom, random_predicate
from tests.oracle.generate_queries import (
    STEPS_MS,
    WINDOWS_MS,
    random_aggregate,
    random_key,
    random_limits,
    random_sets,
)
from tests.oracle.pools import Pool, random_pool
from tests.oracle.registered import GRADE, MIDCAP, Called
from tests.oracle.rephrase import rephrased
from tests.oracle.spec import Key, Spec
from tests.oracle.tables import Join, Table
from tests.oracle.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Row, decimal_type

DECIMALS = ((38, 0), (38, 10), (38, 38), (18, 4), (9, 9), (4, 2))
FEW_WINDOWS = 4
"""So many window shapes in a case, so that queries differ in predicates more than in windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the queries of a case have in common."""

    pools: tuple[Pool, ...]
    tables: tuple[Table, ...]
    windows: tuple[tuple[int, int], ...]
    atoms: tuple[Expression, ...]
    """Tests that read the stream only."""
    calls: bool

    def columns(self) -> tuple[Column, ...]:
        """Return the stream's columns but its event time."""
        return tuple(pool.column for pool in self.pools)


def random_workload(
    seed: int | Random,
    *,
    queries: tuple[int, int] = (5, 12),
    rows: int = 60,
    changes: bool = True,
    calls: bool = True,
) -> Case:
    """Return a case of so many queries, at least and at most, and at most so many rows.

    `changes` lets queries come and go between batches; `calls` lets them call registered functions.
    """
    rng = Random(seed) if isinstance(seed, int) else seed
    workload = _random_parts(rng, calls)
    specs: list[Spec] = []
    for number in range(rng.randint(*queries)):
        specs.append(_random_query(rng, f"q{number}", workload, specs))
    delay_ms = rng.choice((0, 500, 3_000, 60_000))
    times = random_times(rng, tuple(specs), delay_ms, rng.randint(rows // 2, rows))
    batches = random_cuts(rng, [_random_row(rng, workload.pools, at) for at in times])
    if changes:
        specs = [_random_life(rng, spec, len(batches)) for spec in specs]
    return Case(
        schema=(Column(TIME, TIMESTAMP), *workload.columns()),
        batches=batches,
        delay_ms=delay_ms,
        specs=tuple(specs),
        tables=workload.tables,
        functions=(MIDCAP, GRADE) if calls else (),
    )


def _random_parts(rng: Random, calls: bool) -> Workload:
    types = {"b": BIGINT, "b2": BIGINT, "i": INT, "d": DOUBLE, "d2": DOUBLE, "s": STRING, "flag": BOOLEAN}
    types |= {"ts": TIMESTAMP, "dt": DATE, "m": decimal_type(*rng.choice(DECIMALS))}
    pools = [random_pool(rng, Column(name, of)) for name, of in types.items()]
    # Two columns of one type with the same anchors: comparing them is not always false.
    twins = {"b2": pools[0], "d2": pools[3]}
    pools = [
        replace(pool, values=twins[pool.column.name].values) if pool.column.name in twins else pool
        for pool in pools
    ]
    inputs = Inputs(pools=tuple(pools), calls=calls)
    return Workload(
        pools=tuple(pools),
        tables=_random_tables(rng, pools),
        windows=tuple(rng.sample(WINDOWS_MS, FEW_WINDOWS)),
        atoms=tuple(random_atom(rng, inputs) for _ in range(rng.randint(4, 8))),
        calls=calls,
    )


def _random_tables(rng: Random, pools: Sequence[Pool]) -> tuple[Table, ...]:
    """Return tables with keys that repeat, are NULL, or have no partner; `cp` is sometimes 0 or NULL."""
    by_name = {pool.column.name: pool for pool in pools}
    words, numbers, prices = by_name["s"], by_name["b"], by_name["d"]
    close: list[Row] = [
        {
            "sym": rng.choice((None, words.value(rng), words.value(rng), "nobody")),
            "cp": rng.choice((None, 0.0, prices.value(rng), prices.value(rng))),
            "lot": random_value(rng, BIGINT),
        }
        for _ in range(rng.randint(0, 6))
    ]
    sectors: list[Row] = [
        {
            "code": rng.choice((None, numbers.value(rng), numbers.value(rng))),
            "sector": random_value(rng, STRING),
        }
        for _ in range(rng.randint(0, 5))
    ]
    return (
        Table(
            name="close",
            columns=(Column("sym", STRING), Column("cp", DOUBLE), Column("lot", BIGINT)),
            rows=tuple(close),
        ),
        Table(
            name="sectors", columns=(Column("code", BIGINT), Column("sector", STRING)), rows=tuple(sectors)
        ),
    )


def _random_row(rng: Random, pools: Sequence[Pool], at: int | None) -> Row:
    return {TIME: at, **{pool.column.name: _random_field(rng, pool) for pool in pools}}


def _random_field(rng: Random, pool: Pool) -> int | str | float | None:
    choice = rng.random()
    if choice < 0.12:
        return None
    return pool.value(rng) if choice < 0.8 else random_value(rng, pool.column.type)  # type: ignore[return-value]


# Queries


def _random_query(rng: Random, name: str, workload: Workload, others: Sequence[Spec]) -> Spec:
    joins = _random_joins(rng, workload.tables)
    inputs = _inputs(rng, workload, joins)
    range_ms, slide_ms = rng.choice(workload.windows)
    keys = _random_keys(rng, workload, joins)
    columns = (*workload.columns(), *(column for join in joins for column in join.table.all_columns()))
    aggregates = tuple(
        _random_aggregate(rng, f"a{place}", columns, workload) for place in range(rng.randint(1, 3))
    )
    spec = Spec(
        name=name,
        range_ms=range_ms,
        slide_ms=slide_ms,
        step_ms=STEPS_MS[range_ms] if range_ms == slide_ms and rng.random() < 0.4 else None,
        offset_ms=rng.randrange(slide_ms) if rng.random() < 0.15 else 0,
        predicate=_random_where(rng, inputs, workload, others),
        keys=keys,
        aggregates=aggregates,
        # Which empty windows with gaps between them belong to a stream's span is a subject of its own.
        emit_empty=not keys and 500 <= slide_ms <= range_ms and rng.random() < 0.15,
        joins=joins,
    )
    spec = random_sets(rng, spec) if keys and rng.random() < 0.25 else spec
    return random_limits(rng, spec) if keys and rng.random() < 0.3 else spec


def _random_where(
    rng: Random, inputs: Inputs, workload: Workload, others: Sequence[Spec]
) -> Expression | None:
    """Return a predicate: a new one, another query's in other words, or none."""
    choice = rng.random()
    if choice < 0.08:
        return None
    told = [one.predicate for one in others if one.predicate is not None and not one.joins]
    if told and choice < 0.35:
        return rephrased(rng, rng.choice(told))
    return random_predicate(rng, inputs, workload.atoms)


def _inputs(rng: Random, workload: Workload, joins: Sequence[Join]) -> Inputs:
    # A table's columns are compared with what the stream's columns are compared with.
    like = {pool.column.type: pool for pool in workload.pools}
    joined = [
        replace(like[column.type], column=column) for join in joins for column in join.table.all_columns()
    ]
    return Inputs(pools=(*workload.pools, *joined), calls=workload.calls)


def _random_joins(rng: Random, tables: Sequence[Table]) -> tuple[Join, ...]:
    close, sectors = tables
    on_close = Join(table=close, on=((Column("s", STRING), close.column("sym")),), left=rng.random() < 0.5)
    on_sectors = Join(
        table=sectors, on=((Column("b", BIGINT), sectors.column("code")),), left=rng.random() < 0.5
    )
    choice = rng.random()
    if choice < 0.7:
        return ()
    return (on_close,) if choice < 0.85 else (on_sectors,) if choice < 0.95 else (on_close, on_sectors)


def _random_keys(rng: Random, workload: Workload, joins: Sequence[Join]) -> tuple[Key, ...]:
    keys = [
        random_key(rng, column) for column in rng.sample(workload.columns(), rng.choice((0, 0, 0, 1, 1, 2)))
    ]
    if joins and rng.random() < 0.3:
        column = rng.choice(joins[0].table.all_columns())
        keys.append(Key(name=f"k_{column.name.split('.')[1]}", expression=column))
    if workload.calls and rng.random() < 0.05:
        keys.append(Key(name="k_midcap", expression=Called(MIDCAP, (Column("s", STRING),))))
    return tuple(keys)


def _random_aggregate(rng: Random, name: str, columns: Sequence[Column], workload: Workload) -> Aggregate:
    condition = rng.choice(workload.atoms) if rng.random() < 0.25 else None
    if rng.random() < 0.12:  # fails on some rows
        broken = (
            Arithmetic("/", Literal(1), Column("i", INT)),
            Cast(Column("s", STRING), BIGINT),
            Arithmetic("*", Column("b", BIGINT), Literal(2**53 + 1)),
        )
        return Aggregate(name=name, function="sum", argument=rng.choice(broken), filter=condition)
    return replace(random_aggregate(rng, name, columns), filter=condition)


def _random_life(rng: Random, spec: Spec, batches: int) -> Spec:
    """Let a query come late, leave early, or both; the first stays, so that the stream has a query."""
    begins = rng.randint(0, batches) if rng.random() < 0.25 else 0
    ends = rng.randint(begins + 1, batches + 1) if rng.random() < 0.2 else None
    return spec if spec.name == "q0" else replace(spec, from_batch=begins, until_batch=ends)
