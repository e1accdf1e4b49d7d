"""Operators that ONNX Runtime's optimisers write, one by one against its CPU kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.graph.microsoft_models import check, compare, one_node, run_here, run_runtime
from tilework.errors import NetworkError
from tilework.graph import from_onnx

RNG = np.random.default_rng(0)
B, S, D = 2, 5, 16


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("skip", [(B, S, D), (1, S, D), (S, D)])
@pytest.mark.parametrize("more", ["", "beta", "bias", "beta bias"])
def test_skip_layer_norm(skip: tuple[int, ...], more: str) -> None:
    vectors = [(n, f32(D)) if n in more else None for n in ("beta", "bias")]
    inputs = [("x", f32(B, S, D)), ("skip", f32(*skip)), ("gamma", f32(D)), *vectors]
    check("SkipLayerNormalization", inputs, ("y", "", "", "sum"), epsilon=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_skip_simplified_layer_norm(bias: bool) -> None:
    inputs = [("x", f32(S, D)), ("skip", f32(S, D)), ("gamma", f32(D))]
    inputs += [("bias", f32(D))] * bias
    check("SkipSimplifiedLayerNormalization", inputs, ("y", "", "", "sum"), epsilon=1e-5)


@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_norm_of_the_default_domain(axis: int) -> None:
    inputs = [("x", f32(B, S, D)), ("gamma", f32(*(B, S, D)[axis:]))]
    check("SimplifiedLayerNormalization", inputs, domain="", axis=axis, epsilon=1e-5)


def test_skip_layer_norm_in_half_precision() -> None:
    names = ("x", "skip", "gamma", "beta")
    shapes = ((B, S, D), (B, S, D), (D,), (D,))
    inputs = [(n, f32(*s).astype(np.float16)) for n, s in zip(names, shapes, strict=True)]
    check("SkipLayerNormalization", inputs, ("y", "", "", "s"), tolerance=2e-3, epsilon=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("op", ["Gelu", "FastGelu", "BiasGelu", "QuickGelu"])
def test_activations(op: str, bias: bool) -> None:
    takes = {"BiasGelu": [True], "FastGelu": [False, True]}.get(op, [False])
    if bias in takes:
        check(op, [("x", f32(B, S, D))] + [("bias", f32(D))] * bias)
    if op == "QuickGelu":
        check(op, [("x", f32(B, S, D))], alpha=1.3)


@pytest.mark.parametrize("flags", [*itertools.product((0, 1), repeat=4)])
def test_fused_matmul(flags: tuple[int, ...]) -> None:
    names = ("transA", "transB", "transBatchA", "transBatchB")
    shapes = []
    for (rows, columns), turned, batch in ((*m, *flags[i::2]) for i, m in enumerate(_MATRICES)):
        shape = [2, 3, columns, rows] if turned else [2, 3, rows, columns]
        shapes.append([shape[2], 2, 3, shape[3]] if batch else shape)
    inputs = [(n, f32(*s)) for n, s in zip("ab", shapes, strict=True)]
    check("FusedMatMul", inputs, alpha=0.7, **dict(zip(names, flags, strict=True)))


_MATRICES = (((3, 4),), ((4, 5),))


@pytest.mark.parametrize(
    "a, b, attrs",
    [
        ((2, 3, 4), (5, 4), {"transB": 1, "alpha": 0.5}),
        ((4, 3), (5, 4), {"transA": 1, "transB": 1}),
        ((4,), (5, 4), {"transA": 1, "transB": 1}),
        ((3, 4), (4,), {"transB": 1}),
    ],
)
@pytest.mark.parametrize("constant", [(), ("b",)])
def test_fused_matmul_of_few_dimensions(
    a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, float], constant: tuple[str, ...]
) -> None:
    for op in ("FusedMatMul", "TransposeMatMul"):
        check(op, [("a", f32(*a)), ("b", f32(*b))], constants=constant, **attrs)


def test_operators_without_a_kernel_on_cpus() -> None:
    """They compute what their description says."""
    x, w, b, skip = f32(3, 4), f32(4, 6), f32(6), f32(3, 6)
    inputs = [("x", x), ("w", w)]
    relu = {"activation": "LeakyRelu", "activation_alpha": 0.2}
    y = run_here(one_node("FusedMatMulActivation", inputs, "y", alpha=2.0, **relu), dict(inputs))
    z = 2 * x @ w
    compare(y, [np.where(z > 0, z, np.float32(0.2) * z)])
    gemm = one_node("FastGelu", [("z", x @ w), ("b", b)], "y")
    (want,) = run_runtime(gemm, {"z": x @ w, "b": b})
    inputs = [("x", x), ("w", w), ("b", b)]
    compare(run_here(one_node("GemmFastGelu", inputs, "y"), dict(inputs)), [want])
    inputs = [("z", x @ w), ("b", b), ("s", skip)]
    compare(run_here(one_node("BiasAdd", inputs, "y"), dict(inputs)), [x @ w + b + skip])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("skip", [None, (2, 8), (2, 8, 3, 4)])
@pytest.mark.parametrize("silu", [0, 1])
def test_group_norms(last: int, skip: tuple[int, ...] | None, silu: int) -> None:
    """Computed by the formula of their description; ONNX Runtime has them on GPUs alone."""
    inputs = {"x": f32(2, 8, 3, 4), "gamma": f32(8), "beta": f32(8)}
    total = inputs["x"]
    if skip:
        inputs |= {"skip": f32(*skip), "bias": f32(8)}
        added = inputs["skip"].reshape(*skip, *(1,) * (4 - len(skip)))
        total = total + added + inputs["bias"][:, None, None]
    groups = total.reshape(2, 4, -1)
    mean, var = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
    y = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(total.shape)
    y = y * inputs["gamma"][:, None, None] + inputs["beta"][:, None, None]
    want = [y / (1 + np.exp(-y)) if silu else y] + [total] * (skip is not None)
    if last:
        want = [w.transpose(0, 2, 3, 1) for w in want]
        inputs |= {
            n: np.ascontiguousarray(v.transpose(0, 2, 3, 1))
            for n, v in inputs.items()
            if v.ndim == 4
        }
    op = "SkipGroupNorm" if skip else "GroupNorm"
    attrs = {"groups": 4, "activation": silu, "channels_last": last, "epsilon": 1e-5}
    model = one_node(op, list(inputs.items()), ("y", "sum")[: len(want)], **attrs)
    compare(run_here(model, inputs), want)


_CONVS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "HardSwish": (), "LeakyRelu": (0.3,),
    "Clip": (-0.5, 0.7), "HardSigmoid": (0.3, 0.4),
}  # fmt: skip


@pytest.mark.parametrize("kind", _CONVS)
@pytest.mark.parametrize("z", [False, True])
def test_fused_conv(kind: str, z: bool) -> None:
    bias = ("b", f32(6)) if kind != "Relu" else None
    inputs = [("x", f32(1, 4, 7, 6)), ("w", f32(6, 2, 3, 3)), bias]
    inputs += [("z", f32(1, 6, 4, 3))] * z
    constants = ("w", "b") if bias else ("w",)
    more = {"activation_params": list(_CONVS[kind])} if _CONVS[kind] else {}
    window = {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check("FusedConv", inputs, constants=constants, activation=kind, **window, **more)


@pytest.mark.parametrize(
    "kind, parameters",
    [
        ("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("Softplus", {}), ("Softsign", {}),
        ("LeakyRelu", {"alpha": 0.3}), ("Elu", {"alpha": 0.4}),
        ("ThresholdedRelu", {"alpha": 0.5}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Selu", {"alpha": 1.4, "gamma": 1.2}),
    ],
)  # fmt: skip
def test_fused_gemm(kind: str, parameters: dict[str, float]) -> None:
    attrs = {f"activation_{k}": v for k, v in parameters.items()}
    inputs = [("a", f32(3, 4)), ("b", f32(5, 4)), ("c", f32(5))]
    common = {"transB": 1, "alpha": 0.5, "beta": 2.0, "activation": kind}
    check("FusedGemm", inputs, constants=("b",), **common, **attrs)


def embedding(**given: bool) -> list[tuple[str, np.ndarray] | None]:
    """Inputs of an embedding; ``given`` says which of those that may be left out are there."""
    ids, kinds, places = (RNG.integers(0, n, (B, S)).astype(np.int32) for n in (11, 2, 9))
    inputs = {
        "ids": ids, "kinds": kinds, "words": f32(11, D), "positions": f32(9, D),
        "segments": f32(2, D), "gamma": f32(D), "beta": f32(D),
        "mask": (np.arange(S) < [[3], [5]]).astype(np.int32), "places": places,
    }  # fmt: skip
    inputs["mask"][0, 0] = 2  # only ones are counted
    left_out = {n for n, there in given.items() if not there}
    return [None if n in left_out else (n, v) for n, v in inputs.items()]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("segments", [False, True])
def test_embedding(mask: bool, places: bool, segments: bool) -> None:
    inputs = embedding(mask=mask, places=places, kinds=segments, segments=segments)
    while inputs[-1] is None:
        inputs.pop()
    outputs = ("y", "lengths", "sum") if mask else ("y", "lengths")
    check("EmbedLayerNormalization", inputs, outputs, constants=("words",), epsilon=1e-5)


def test_operators_that_the_standard_took_over() -> None:
    k = ("k", np.array(1))
    check("Trilu", [("x", f32(4, 5)), k], constants=("k",), upper=0)
    check("GatherND", [("x", f32(4, 5)), ("i", RNG.integers(0, 4, (3, 2)))])
    check("ExpandDims", [("x", f32(4, 5)), ("k", np.array([-1], np.int32))], constants=("k",))
    pads = ("p", np.array([1, 0, 0, 2]))
    check("Pad", [("x", f32(4, 5)), pads, ("v", f32(1))], constants=("p", "v"))


@pytest.mark.parametrize(
    "op, inputs, attrs, told",
    [
        (
            "GroupNorm",
            [(1, 4, 4, 8), (8,), (8,)],
            {"groups": 2, "activation": 2},
            "activation is 2",
        ),
        ("GroupNorm", [(1, 4, 8), (8,), (8,)], {"groups": 2}, "3 dimensions instead of 4"),
        ("FusedGemm", [(3, 4), (4, 5)], {"activation": "Mish"}, "activation 'Mish' is not one of"),
        ("BiasSplitGelu", [(1, 4, 5), (5,)], {}, "do not make two halves"),
        ("BeamSearch", [(1, 4)], {}, "export one step of the decoder"),
        ("RelativePositionBias", [(4, 4)], {}, "optimise the model for a CPU"),
        ("Inverse", [(4, 4)], {}, "unsupported: com.microsoft.Inverse"),
    ],
)
def test_what_is_refused(
    op: str, inputs: list[tuple[int, ...]], attrs: dict[str, object], told: str
) -> None:
    given = [(f"i{i}", f32(*s)) for i, s in enumerate(inputs)]
    with pytest.raises(NetworkError, match=told) as e:
        from_onnx(one_node(op, given, "y", **attrs))
    assert "'node'" in str(e.value) and "\n" not in str(e.value)
