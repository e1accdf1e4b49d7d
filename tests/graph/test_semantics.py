"""NaN, infinities, overflow and narrow types in every operator: as ONNX Runtime, or as `KNOWN`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilework as tw
from tests.graph.operator_cases import TARGET
from tests.graph.run_plan import run_plan
from tests.graph.semantics import (
    INTEGERS,
    KNOWN,
    REFUSED,
    STRUCTURED,
    TYPES,
    Case,
    assert_same,
    elementwise,
    model,
    onnxruntime_says,
    special,
    uncompared,
)
from tests.lower.test_programs import SEEDS, examples
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.ir import Builder

PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"


def evaluated(case: Case) -> list[np.ndarray]:
    """What the plan of a case computes, by the reference evaluator."""
    made, feed = model([case])
    net = from_onnx(made)
    return run_plan(net, *(feed[n] for n in net.inputs))


def compare(case: Case) -> bool:
    """Whether there was something to compare with."""
    want = onnxruntime_says(case)
    if want is None:
        return False
    if case.dtype in REFUSED.get(case.op, ()):
        with pytest.raises(NetworkError, match=f"not defined for {case.dtype}"):
            evaluated(case)
        return True
    for got, wanted in zip(evaluated(case), want, strict=True):
        assert_same(got, wanted, case, uncompared(case))
    return True


@pytest.mark.parametrize("dtype", TYPES)
def test_elementwise_operators(dtype: str) -> None:
    compared = [compare(case) for case in elementwise(dtype)]
    assert sum(compared) >= 15


def test_other_operators() -> None:
    compared = []

    @examples(800)
    @given(st.sampled_from(sorted(STRUCTURED)), st.sampled_from(TYPES), SEEDS)
    def each(op: str, dtype: str, seed: int) -> None:
        compared.append(compare(STRUCTURED[op](np.random.default_rng(seed), op, dtype)))

    each()
    assert sum(compared) >= 250


@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_mean_what_the_evaluator_means(dtype: str) -> None:
    """All operators of a type that the importer takes, compiled together."""
    rng = np.random.default_rng(0)
    every = [*elementwise(dtype), *(make(rng, op, dtype) for op, make in STRUCTURED.items())]
    cases, want = [], []
    for case in every:
        try:
            found = evaluated(case)
        except NetworkError:
            continue
        cases.append(case)
        want.append(found)
    assert len(cases) >= 25
    made, feed = model(cases)
    net = from_onnx(made)
    got = iter(tw.compile(net, TARGET).run({n: feed[n] for n in net.inputs}))
    for case, outputs in zip(cases, want, strict=True):
        for wanted in outputs:
            assert_same(next(got), wanted, case, np.zeros((), bool))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_zero_and_shifts_by_any_amount(dtype: str) -> None:
    """What ONNX Runtime dies of, or leaves to the CPU, has one result."""
    x = special(dtype)
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    builder = Builder("edges")
    p, q = builder.input("p", a.shape, dtype), builder.input("q", a.shape, dtype)
    ops = ("divide", "truncated_mod", "floor_mod", "shift_left", "shift_right")
    net = builder.finish([builder.op(op, p, q) for op in ops])
    bits, low = np.iinfo(dtype).bits, np.iinfo(dtype).min

    def wrapped(v: int) -> int:
        return (v - low) % 2**bits + low

    def quotient(i: int, j: int) -> int:
        return abs(i) // abs(j) * (1 if (i < 0) == (j < 0) else -1) if j else i

    pairs = [(int(i), int(j)) for i, j in zip(a, b, strict=True)]
    far = [j % 2**bits >= bits for _, j in pairs]
    want = [
        [wrapped(quotient(i, j)) for i, j in pairs],
        [i - quotient(i, j) * j if j else 0 for i, j in pairs],
        [i % j if j else 0 for i, j in pairs],
        [0 if f else wrapped(i << j) for (i, j), f in zip(pairs, far, strict=True)],
        [-(i < 0) if f else i >> j for (i, j), f in zip(pairs, far, strict=True)],
    ]
    for results in (run_plan(net, a, b), tw.compile(net, TARGET).run(a, b)):
        for op, got, wanted in zip(ops, results, want, strict=True):
            np.testing.assert_array_equal(got, np.array(wanted, dtype), op)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_one_hot_deeper_than_its_indices(dtype: str) -> None:
    """A uint8 index 4 is hot once, though 260 has the same low bits; -1 means the last place."""
    at = np.array([4, 0, 127, -1 if dtype == "int8" else 255], dtype)
    made, feed = model([Case("OneHot", dtype, (at, np.array(300), np.array([0, 1])), (1, 2))])
    net = from_onnx(made)
    (got,) = tw.compile(net, TARGET).run(*(feed[n] for n in net.inputs))
    last = 299 if dtype == "int8" else 255
    assert [np.flatnonzero(row).tolist() for row in got] == [[4], [0], [127], [last]]


@pytest.mark.parametrize("depth", [0, -1])
def test_a_one_hot_without_depth_is_refused(depth: int) -> None:
    at, values = np.array([0, 1]), np.array([0, 1])
    made, _ = model([Case("OneHot", "int64", (at, np.array(depth), values), (1,))])
    with pytest.raises(NetworkError, match="must be positive"):
        from_onnx(made)


def test_the_page_lists_every_difference() -> None:
    text = PAGE.read_text()
    section = text[text.index("## Where ONNX Runtime") :]
    named = {op for known in KNOWN for op in known.ops} | set(REFUSED)
    assert [op for op in sorted(named) if f"{op}" not in section] == []
