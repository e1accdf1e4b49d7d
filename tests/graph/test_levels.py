"""Which nodes run together: the rule itself, on graphs of any form."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilework.graph.onnx.levels import levels, together, worthwhile


@st.composite
def graphs(draw):
    """Whose each node is, and whose results each one reads."""
    count = draw(st.integers(1, 14))
    ours = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    reads = [
        sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else [] for n in range(count)
    ]
    return ours, reads


@given(graphs())
@settings(max_examples=100, deadline=None)
def test_a_part_is_one_engine_s_and_reads_what_ran_before(graph):
    ours, reads = graph
    parts = together(ours, reads)
    assert sorted(n for part in parts for n in part) == list(range(len(ours)))
    at = {n: i for i, part in enumerate(parts) for n in part}
    for part in parts:
        assert len({ours[n] for n in part}) == 1
    for node, before in enumerate(reads):
        for p in before:
            assert at[p] < at[node] or (at[p] == at[node] and p < node)


@given(graphs())
@settings(max_examples=100, deadline=None)
def test_levels_are_the_least_that_the_rule_allows(graph):
    ours, reads = graph
    found = levels(ours, reads)
    for node, before in enumerate(reads):
        assert found[node] % 2 == (not ours[node])
        least = max((found[p] for p in before), default=0)
        assert least <= found[node] <= least + 1


@given(graphs(), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_what_stays_ours_is_worth_it(graph, smallest):
    ours, reads = graph
    mine = worthwhile(ours, reads, lambda group: len(group) >= smallest)
    assert all(o or not m for o, m in zip(ours, mine, strict=True))  # nothing is taken
    asked = []
    assert worthwhile(mine, reads, lambda g: asked.append(g) or True) == mine
    assert all(len(group) >= smallest for group in asked)


def test_values_that_pass_by_do_not_cut():
    # ours, theirs, ours that reads both; theirs that reads the first
    assert together([True, False, True, False], [[], [0], [0, 1], [0]]) == [[0], [1, 3], [2]]
