"""How much of a table is read."""

from __future__ import annotations

from tilework import te
from tilework.index.symbols import symbol, value_at
from tilework.te.touched import touched_bytes


def lookups(rows, count, width=8):
    table, where = te.placeholder((rows, width), "table"), te.placeholder((count,), "i", "int64")
    out = te.compute((count, width), lambda b, k: table[where[b], k])
    return te.ComputeDAG([table, where, out]), table, where, out


def test_rows_that_data_find_count_once_for_each_place():
    dag, table, where, out = lookups(1000, 5)
    assert touched_bytes(dag, table, 32000) == 5 * 8 * 4
    assert (touched_bytes(dag, where, 40), touched_bytes(dag, out, 160)) == (40, 160)


def test_of_few_rows_all_are_read():
    dag, table, *_ = lookups(3, 5)
    assert touched_bytes(dag, table, 96) == 96


def test_a_table_that_is_also_read_elsewhere_is_read_whole():
    dag, table, _, out = lookups(5, 5)
    both = te.compute((5, 8), lambda b, k: out[b, k] + table[b, k])
    dag = te.ComputeDAG([*dag.inputs, both])
    assert touched_bytes(dag, table, 160) == 160


def test_places_that_a_run_counts():
    n = symbol("n", 1, 64)
    dag, table, *_ = lookups(1000, n)
    (one,) = dag.symbols
    assert value_at(touched_bytes(dag, table, 32000), {one: 7}) == 7 * 8 * 4
