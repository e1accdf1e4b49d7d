"""The memory plan: values that are alive together never share a byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilework import zoo
from tilework.compiler.memory import Memory
from tilework.runtime.arena import Lifetime, place
from tilework.runtime.arrays import ALIGN

LIFETIMES = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(0, 5000),
    st.integers(0, 20),
    st.integers(0, 8),
)


@given(st.lists(LIFETIMES, max_size=30))
def test_values_alive_together_never_overlap(values):
    offsets, total = place(values)
    for i, (a, at) in enumerate(zip(values, offsets, strict=True)):
        assert at % ALIGN == 0
        assert at + a.size <= total
        for b, to in zip(values[:i], offsets[:i], strict=True):
            apart = at + a.size <= to or to + b.size <= at
            assert apart or not a.meets(b) or 0 in (a.size, b.size)


@given(st.lists(LIFETIMES, max_size=30))
def test_the_arena_holds_the_busiest_moment_and_no_more_than_everything(values):
    _, total = place(values)
    busiest = max(
        (sum(v.size for v in values if v.first <= t <= v.last) for t in range(30)), default=0
    )
    assert busiest <= total <= sum(v.size + ALIGN for v in values)


def test_a_chain_needs_two_buffers():
    chain = [Lifetime(1 << 20, i, i + 1) for i in range(10)]
    assert place(chain)[1] == 2 << 20


def test_no_value_of_a_network_is_overwritten_before_its_last_use():
    from tilework.graph import plan

    planned = plan(zoo.get("resnet-50", image_shape=(64, 64, 3)))
    memory = Memory(planned)
    for start, call in enumerate(planned.calls):
        root = planned.views.get(call.output, call.output)
        if root not in memory._arena:
            continue
        uses = [i for i, c in enumerate(planned.calls) if _reads(planned, c, root)]
        low = memory._arena[root]
        high = low + _bytes(planned, root)
        for later in planned.calls[start + 1 : max(uses) + 1]:
            other = planned.views.get(later.output, later.output)
            if other in memory._arena:
                at = memory._arena[other]
                assert at >= high or at + _bytes(planned, other) <= low


def test_a_network_reuses_memory():
    from tilework.graph import plan

    planned = plan(zoo.get("resnet-50", image_shape=(64, 64, 3)))
    memory = Memory(planned)
    assert memory.arena_bytes < 0.2 * sum(_bytes(planned, c.output) for c in planned.calls)


def _reads(planned, call, root):
    return any(planned.views.get(v, v) == root for v in call.inputs)


def _bytes(planned, name):
    size = 4
    for extent in planned.values[name].shape:
        size *= extent
    return size
