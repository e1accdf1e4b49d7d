"""Kernels of every form are right in checked mode, in two orders of threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda import families
from tests.kinds.cuda.harness import assert_near, case_of, check_all, random_inputs, run_cases
from tests.ops.test_sparse import conv_dag, dense_dag, weight
from tilework import te
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.tiling import form_of
from tilework.lower.protocol import lowering_of
from tilework.ops.bsr import to_bsr
from tilework.space import SearchSpace, Sketch
from tilework.space.protocol import space_of
from tilework.space.sparse import SPARSE_RULES
from tilework.target import Target

A100 = Target("cuda -model=a100")
pytestmark = pytest.mark.usefixtures("needs_compiler")


def sketches(tensors) -> tuple[te.ComputeDAG, tuple[Sketch, ...]]:
    dag = te.ComputeDAG(tensors)
    return dag, SearchSpace.derive(dag, A100).sketches


def forms(sketch: Sketch) -> list[str]:
    return [form_of(b) for b in sketch.blocks]


def short(sketch: Sketch, rows: np.ndarray) -> np.ndarray:
    """The rows in order of the length of their text: long ones take long to compile."""
    lengths = sum(geometry(nest).expanded for nest in sketch.nests(rows))
    return rows[np.argsort(lengths, kind="stable")]


def check(computations, *, count=1, form=None, tolerance=2e-5) -> set[str]:
    """Random rows of all sketches, or of those with a kernel of one form; the forms that ran."""
    rng, wanted, seen = np.random.default_rng(0), [], set[str]()
    for tensors in computations:
        dag, found = sketches(tensors)
        own = [s for s in found if form is None or form in forms(s)]
        assert own
        wanted += [(dag, s, short(s, s.sample(rng, 4 * count))[:count]) for s in own]
        seen |= {f for s in own for f in forms(s)}
    check_all(wanted, tolerance=tolerance)
    return seen


def test_windows():
    check(families.WINDOWS, form="direct")


def test_groups_and_whole_maps():
    check([families.grouped(), families.global_pool()])


def test_rows():
    assert "rows" in check(families.ROWS[:-1], count=2, form="rows")


def test_norms_of_groups():
    check(families.ROWS[-1:])


def test_reductions_across_threads():
    assert {"across", "direct"} <= check(families.SUMS)


@pytest.mark.parametrize("narrow", [False, True])
def test_points(narrow):
    kinds = ("float16", "bfloat16")
    chosen = [c for c in families.POINTS if (c[0].dtype in kinds) == narrow]
    assert check(chosen, tolerance=1e-2 if narrow else 2e-5) == {"points"}


def test_winograd():
    assert "transform" in check(families.WINOGRAD, form="transform", tolerance=2e-4)


def test_products_in_parts():
    check(families.SPLIT, form="direct")


def test_block_sparse_products():
    rng, cases, wanted = np.random.default_rng(0), [], []
    for block in ((16, 1), (1, 1), (4, 2), (3, 2)):
        w = weight(rng, 50, 24, block, 0.3)
        bsr = to_bsr(w, block)
        dags = (dense_dag(5, 50, 24, bsr, False), conv_dag((1, 4, 5, 24), 50, bsr, (2, 1), True))
        for dag in dags:
            x = rng.uniform(-1, 1, dag.inputs[0].shape).astype(np.float32)
            inputs = [x, bsr.data, bsr.indices, bsr.indptr]
            rules = (*SPARSE_RULES, *space_of(A100).rules)
            for s in SearchSpace.derive(dag, A100, rules).sketches:
                assert "ragged" in forms(s)
                for row in s.sample(rng, 1):
                    cases.append(case_of(lowering_of(A100).lower(s, row), inputs))
                    wanted.append(te.evaluate(dag, inputs)[0])
    for case, (got,), want in zip(cases, run_cases(cases), wanted, strict=True):
        assert_near(got, want, 2e-5, case.source.text)


def test_arguments_inside_larger_arrays():
    """A concatenation's parts are computed where they belong, slices are read where they lie."""
    rng, cases, wanted = np.random.default_rng(0), [], []
    chosen = (families.softmax(5, 12), families.elementwise("float32", 6, 8),
              families.reduction(te.sum, 3, 5, 64), families.depthwise(h=5))  # fmt: skip
    for tensors in chosen:
        dag, found = sketches(tensors)
        inputs = random_inputs(dag)
        for number in (0, len(dag.inputs)):  # the first input, or the output
            shape = dag.tensors[number].shape
            wide = tuple(int(np.prod(shape[d + 1 :]) * 3) for d in range(len(shape) - 1))
            apart = {number: (*wide, 1)}
            for s in found[:1]:
                (row,) = s.sample(rng, 1)
                lowered = lowering_of(A100).lower(s, row, apart)
                own = [a.copy() for a in inputs]
                if number == 0:
                    own[0] = spread(own[0], apart[0])
                cases.append(case_of(lowered, own))
                strides = apart[number] if number else None
                wanted.append((te.evaluate(dag, inputs)[0], strides))
    for case, (got,), (want, strides) in zip(cases, run_cases(cases), wanted, strict=True):
        if strides is not None:
            steps = [s * got.itemsize for s in strides]
            got = np.lib.stride_tricks.as_strided(got, want.shape, steps)
        assert_near(got, want, 2e-5, case.source.text)


def spread(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """The elements with these strides, junk between them."""
    reach = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    out = np.full(reach, 1e30, array.dtype)
    steps = [s * array.itemsize for s in strides]
    np.lib.stride_tricks.as_strided(out, array.shape, steps)[...] = array
    return out
