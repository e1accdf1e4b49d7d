"""CUDA C of expressions computes what the evaluator says, for all operators and element types."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kinds.cuda.harness import Case, run_cases
from tilework import te
from tilework.dtypes import finite_range, is_float, numpy_dtype
from tilework.kinds.cuda.source import cubin, nvrtc
from tilework.kinds.cuda.source.printer import print_program
from tilework.lower.common import bind, const, load, weighted_sum
from tilework.lower.ir import Buffer, If, Program, Region, Store
from tilework.te import ComputeDAG
from tilework.te.arithmetic import binary, compare
from tilework.te.evaluate import evaluate
from tilework.te.expr import Axis, Binary

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
THREADS = 32
pytestmark = pytest.mark.usefixtures("needs_compiler")


def pointwise(dag: ComputeDAG) -> Program:
    """Every thread computes an element of each stage, all of which have one shape."""
    buffers = {t.op: Buffer(t.name, t.shape, t.dtype, "input") for t in dag.inputs}
    regions = []
    for op in dag.compute_ops:
        buffers[op] = Buffer(op.name, op.shape, op.dtype, "output")
        (n,) = op.shape
        block = Axis("int32", "b", -(-n // THREADS), "loop")
        thread = Axis("int32", "t", THREADS, "loop")
        at = weighted_sum([(block, THREADS), (thread, 1)])
        value = bind(op.body, {op.axes[0]: at}, lambda o, r, i: load(buffers[o], i))
        body = If(compare("<", at, const(n)), Store(buffers[op], (at,), value))
        regions.append(Region(op.name, (block,), body, (thread,)))
    inputs = tuple(buffers[t.op] for t in dag.inputs)
    outputs = tuple(buffers[t.op] for t in dag.outputs)
    return Program(inputs, outputs, (), tuple(regions))


def numbers(dtype: str, n: int = 70, seed: int = 0) -> np.ndarray:
    """Small and special numbers of a type."""
    rng = np.random.default_rng(seed)
    if is_float(dtype):
        special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-3])
        rest = rng.standard_normal(n - len(special)) * 4
        return rng.permutation(np.concatenate([special, rest])).astype(numpy_dtype(dtype))
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    low, high = finite_range(dtype)
    special = np.array([v for v in (low, low + 1, high, high - 1, 0, 1, 2, -1, 3, -7, 7, 31, 33)
                        if low <= v <= high], numpy_dtype(dtype))  # fmt: skip
    rest = rng.integers(max(low, -100), min(high, 100), n - len(special))
    return rng.permutation(np.concatenate([special, rest.astype(special.dtype)]))


def declared(dtypes, body, n=70) -> tuple[ComputeDAG, list[np.ndarray]]:
    """A DAG of one stage over inputs of some types."""
    ins = [te.placeholder((n,), f"x{i}", d) for i, d in enumerate(dtypes)]
    out = te.compute((n,), lambda i: body(*(x[i] for x in ins)), name="out")
    return ComputeDAG([*ins, out]), [numbers(d, n, i) for i, d in enumerate(dtypes)]


def check(found: list[tuple[ComputeDAG, list[np.ndarray]]], rtol: float = 3e-6) -> None:
    """Compare all of them; in the evaluator narrow floats are float32."""
    cases = [Case(pointwise(dag), inputs) for dag, inputs in found]
    for (dag, inputs), outputs, case in zip(
        found, run_cases(cases, False, (0,)), cases, strict=True
    ):
        expected = evaluate(dag, inputs)
        for a, b, t in zip(outputs, expected, dag.outputs, strict=True):
            text = f"{dag}\n{case.source.text}\n{[x.tolist() for x in inputs]}"
            if is_float(t.dtype):
                wide = np.float64 if t.dtype == "float64" else np.float32
                with np.errstate(all="ignore"):
                    np.testing.assert_allclose(
                        a.astype(wide), b.astype(wide), rtol=rtol, atol=1e-6, err_msg=text
                    )
            else:
                np.testing.assert_array_equal(a, b, err_msg=text)


def operator(op):
    return lambda a, b: Binary(a.dtype, op, a, b)


def arithmetic():
    found = []
    for dtype in INTEGERS:
        for op in ("+", "-", "*", "//", "%", "quot", "rem", "max", "min", "&", "|", "^"):
            found.append(declared((dtype, dtype), operator(op)))
        for op in ("<<", ">>"):
            found.append(declared((dtype, dtype), operator(op)))
    for dtype in FLOATS:
        for op in ("+", "-", "*", "/", "max", "min"):
            found.append(declared((dtype, dtype), operator(op)))
    for dtype in ("float16", "bfloat16", "bool"):
        for op in ("max", "min"):
            found.append(declared((dtype, dtype), operator(op)))
    return found


def logic(a, b, c):
    return te.all(te.any(a < b, b < c), te.logical_not(a < c))


def comparisons_and_choices():
    found = []
    for dtype in (*INTEGERS, *FLOATS, "float16", "bfloat16", "bool"):
        for op in ("<", "<=", ">", ">=", "==", "!="):
            found.append(declared((dtype, dtype), lambda a, b, op=op: compare(op, a, b)))
        found.append(declared((dtype, dtype), lambda a, b: te.select(a < b, a, b)))
        found.append(declared((dtype, dtype), lambda a, b: te.if_then_else(a > b, a, b)))
        found.append(declared((dtype,) * 3, logic))
    return found


def casts():
    """Numbers that do not fit are left out: machines differ in what becomes of them."""
    every = (*INTEGERS, *FLOATS, "float16", "bfloat16", "bool")
    found = []
    for source in every:
        for to in every:
            dag, (x,) = declared((source,), lambda a, to=to: te.cast(to, a))
            if is_float(source) and not is_float(to) and to != "bool":
                x = np.nan_to_num(x.astype(np.float32), posinf=100, neginf=-100)
                x = np.abs(x) if to == "uint64" else x
                x = x.astype(numpy_dtype(source))
            found.append((dag, [x]))
    big, (x,) = declared(("float64",), lambda a: te.cast("uint64", a))
    found.append((big, [np.linspace(0, 1.8e19, len(x))]))
    return found


def functions():
    found = []
    for name in te.MATH_FUNCTIONS:
        for dtype in FLOATS if name != "round_tf32" else ("float32",):
            count = {"pow": 2, "fmod": 2, "quotient": 3}.get(name, 1)
            found.append(declared((dtype,) * count, lambda *a, name=name: te.call(name, *a)))
    found.append(declared(("float32",), te.abs))
    return found


def literals():
    found = []
    for dtype in FLOATS:
        for value in (0.1, -0.0, float("inf"), float("-inf"), float("nan"), 1e-30, 3.0):
            found.append(declared((dtype,), lambda a, v=value: a + te.const(v, a.dtype)))
    for dtype in INTEGERS:
        for value in finite_range(dtype):
            found.append(declared((dtype,), lambda a, v=value: te.const(v, a.dtype) - a))
    for dtype in ("float16", "bfloat16"):
        found.append(declared((dtype,), lambda a: te.maximum(a, te.const(0.1, a.dtype))))
    return found


@pytest.mark.parametrize(
    "make", [arithmetic, comparisons_and_choices, casts, literals], ids=lambda f: f.__name__
)
def test_values(make):
    check(make())


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_least_number_has_a_sign_for_every_compiler(dtype):
    """Its magnitude alone is a literal without sign, or of a type that devices lack."""
    low, high = (int(v) for v in finite_range(dtype))
    dag, inputs = declared((dtype,), lambda a: te.cast("int32", a >= te.const(low, dtype)))
    case = Case(pointwise(dag), inputs)
    ((found,),) = run_cases([case], False, (0,))
    assert found.all()
    assert f"{high + 1}" not in case.source.text


def test_values_of_functions():
    check(functions(), rtol=3e-5)


@pytest.mark.usefixtures("needs_nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90", marks=pytest.mark.cuda_full)])
def test_devices_have_all_of_it(arch):
    """One program of every expression above."""
    texts = {}
    for make in (arithmetic, comparisons_and_choices, casts, literals, functions):
        for dag, _ in make():
            texts |= {e.name: e.text for e in print_program(pointwise(dag)).entries}
    if arch == "sm_80":
        texts = dict(list(texts.items())[::4])
    code = nvrtc.cubin("\n".join(texts.values()), arch, "expressions")
    assert set(texts) <= set(cubin.resources(code))


@pytest.mark.usefixtures("needs_nvrtc")
def test_roundings_of_narrow_types_need_no_instructions_of_tensor_cores():
    texts = {}
    for dtype in ("float16", "bfloat16"):
        dag, _ = declared(("float32",), lambda a, d=dtype: te.cast(d, te.round_tf32(a)))
        texts |= {e.name: e.text for e in print_program(pointwise(dag)).entries}
    code = nvrtc.cubin("\n".join(texts.values()), "sm_75", "roundings")
    assert set(texts) <= set(cubin.resources(code))


@st.composite
def integer_trees(draw, depth=4):
    """Index arithmetic over a thread's number."""

    def tree(i, d):
        if d == 0 or draw(st.booleans()):
            return i if draw(st.booleans()) else te.const(draw(st.integers(-9, 9)), "int32")
        op = draw(st.sampled_from(("+", "-", "*", "//", "%", "max", "min", "quot", "rem")))
        a = tree(i, d - 1)
        b = (
            te.const(draw(st.integers(1, 9)), "int32")
            if op in ("//", "%", "quot", "rem")
            else (tree(i, d - 1))
        )
        return binary(op, a, b)

    return lambda i: tree(i, depth)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(integer_trees(), min_size=40, max_size=40))
def test_index_arithmetic(trees):
    found = []
    for body in trees:
        x = te.placeholder((70,), "x", "int32")
        out = te.compute((70,), lambda i, body=body, x=x: body(i) + binary("^", x[i], x[i]), "out")
        found.append((ComputeDAG([x, out]), [numbers("int32")]))
    check(found)
