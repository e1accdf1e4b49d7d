"""A race is reported exactly where two accesses are not ordered by a barrier."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kinds.cuda.emulate.arrays import aligned, pointers
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated, EmulationError

THREADS, STEPS, CELLS = 64, 8, 3
NOTHING, READ, WRITE = 0, 1, 2
BLOCK, WARP = "block", "warp"

# What each thread does is data: at step s all threads wait for each other, or each may access.
INTERPRETER = f"""\
extern "C" __global__ void __launch_bounds__({THREADS}) interpreter(TW_IN(int32_t, barriers, {STEPS}), TW_IN(int32_t, actions, {STEPS * THREADS}), TW_IN(int32_t, places, {STEPS * THREADS}), TW_OUT(float, out, {THREADS})) {{
  TW_BLOCK_STATIC(16);
  TW_SHARED(float, cells, {CELLS}, 0);
  const int tid = (int)threadIdx.x;
  if (tid < {CELLS}) TW_ST(cells, tid, 0.0f);
  __syncthreads();
  float sum = 0.0f;
  for (int s = 0; s < {STEPS}; ++s) {{
    const int barrier = TW_LD(barriers, s), action = TW_LD(actions, s * {THREADS} + tid), place = TW_LD(places, s * {THREADS} + tid);
    if (barrier == 1) __syncthreads();
    if (barrier == 2) __syncwarp();
    if (action == {READ}) sum += TW_LD(cells, place);
    if (action == {WRITE}) TW_ST(cells, place, (float)s);
  }}
  TW_ST(out, tid, sum);
}}
"""  # noqa: E501

accesses = st.lists(
    st.tuples(
        st.integers(0, STEPS - 1),
        # few threads, most of one warp, so that many of the programs are right
        st.sampled_from([0, 1, 2, 31, 32, 63]),
        st.sampled_from([READ, READ, WRITE]),
        st.integers(0, CELLS - 1),
    ),
    max_size=6,
)
barriers = st.lists(
    st.sampled_from([None, None, WARP, WARP, BLOCK]), min_size=STEPS, max_size=STEPS
)


@lru_cache(maxsize=1)
def library():
    return Emulated(compile_text([("interpreter", INTERPRETER)], checked=True))


def racy(before, found):
    """Whether two of these accesses (step, thread, action, cell) are not ordered."""
    return any(
        a[1] != b[1] and a[3] == b[3] and WRITE in (a[2], b[2]) and not ordered(before, a, b)
        for a, b in combinations(found, 2)
    )


def ordered(before, a, b):
    first, last = sorted((a[0], b[0]))
    between = before[first + 1 : last + 1]  # a barrier comes before the access of its step
    return BLOCK in between or (WARP in between and a[1] // 32 == b[1] // 32)


@pytest.mark.usefixtures("needs_compiler")
@settings(max_examples=200, deadline=None)
@given(barriers, accesses, st.integers(0, 4))
@example([None, WARP, WARP, *[None] * 5], [(0, 0, READ, 0), (1, 1, READ, 0), (2, 2, WRITE, 0)], 0)
@example([None, WARP, *[None] * 6], [(0, 0, READ, 0), (1, 1, READ, 0), (1, 2, WRITE, 0)], 0)
@example([None, WARP, *[None] * 6], [(0, 0, WRITE, 0), (0, 32, READ, 0)], 1)
def test_races_are_reported_exactly_where_they_are(before, wanted, order):
    by_place = {(s, t): (s, t, what, cell) for s, t, what, cell in wanted}
    found = list(by_place.values())  # one access a thread and step
    kinds, actions = aligned((STEPS,), "int32"), aligned((STEPS, THREADS), "int32", 0)
    places, out = aligned((STEPS, THREADS), "int32", 0), aligned((THREADS,))
    kinds[...] = [{None: 0, BLOCK: 1, WARP: 2}[b] for b in before]
    for s, t, what, cell in found:
        actions[s, t], places[s, t] = what, cell
    problems: tuple[str, ...] = ()
    try:
        library().launch(
            "interpreter", 1, THREADS, 0, pointers(kinds, actions, places, out), order
        )
    except EmulationError as error:
        problems = error.problems
    assert all("race" in p for p in problems), problems
    assert bool(problems) == racy(before, found)
