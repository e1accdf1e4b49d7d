"""Attention as ONNX Runtime's optimisers write it: masks, past, packed operands, rotation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.graph.microsoft_models import check, compare, one_node, run_here, run_runtime
from tilework.errors import NetworkError
from tilework.graph import from_onnx

RNG = np.random.default_rng(0)
B, S, N, H = 2, 5, 3, 8
W = N * H
Named = tuple[str, np.ndarray]


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def places(**arrays: np.ndarray | None) -> list[Named | None]:
    """Inputs by place; those that are None are left out, at the end altogether."""
    inputs = [None if a is None else (n, a) for n, a in arrays.items()]
    while inputs[-1] is None:
        inputs.pop()
    return inputs


def mask_of(kind: str, keys: int, queries: int = S) -> np.ndarray | None:
    """A mask that hides some keys, but never all of them, from sequences of so many keys."""
    ends, starts = [keys - 2, keys], [1, 0]
    at = np.arange(keys)
    padded = ((at >= np.array([[0], [2]])) & (at < np.array([ends]).T)).astype(np.int32)
    if kind == "matrix":
        full = RNG.integers(0, 2, (B, queries, keys)).astype(np.int32)
        full[:, :, 0] = 1
        return full
    return {
        "none": None,
        "lengths": np.array(ends, np.int32),
        "ends and starts": np.array([*ends, *starts], np.int32),
        "lengths and offsets": np.array([*ends, 0, 5, 9, 0, 5, 9], np.int32),
        "keys": padded,
        "one": np.zeros((B, 1), np.int32),
    }[kind]


MASKS = ["none", "lengths", "ends and starts", "lengths and offsets", "keys", "one", "matrix"]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(mask: str, past: int, causal: int) -> None:
    inputs = places(
        x=f32(B, S, 12), w=f32(12, 3 * W), b=f32(3 * W), mask=mask_of(mask, past + S),
        past=f32(2, B, N, past, H) if past else None,
    )  # fmt: skip
    attrs = {"num_heads": N, "unidirectional": causal}
    check("Attention", inputs, ("y", "present"), ("w", "b"), **attrs)


@pytest.mark.parametrize("bias", [(B, N, S, S), (1, N, S, S), (B, 1, S, S)])
def test_attention_with_a_bias_of_scores(bias: tuple[int, ...]) -> None:
    inputs = places(
        x=f32(B, S, 12), w=f32(12, 3 * W), b=f32(3 * W), mask=mask_of("keys", S), past=None,
        bias=f32(*bias),
    )  # fmt: skip
    check("Attention", inputs, num_heads=N, scale=0.2, mask_filter_value=-3.0)


def test_attention_with_wide_values_and_weights_that_are_inputs() -> None:
    sizes = [W, W, 2 * W]
    inputs = places(x=f32(B, S, 12), w=f32(12, sum(sizes)), b=f32(sum(sizes)))
    for constants in ((), ("w", "b")):
        check("Attention", inputs, ("y",), constants, num_heads=N, qkv_hidden_sizes=sizes)


def test_attention_where_nothing_may_be_seen() -> None:
    """All keys are hidden alike, so that the mask means nothing there."""
    mask = np.zeros((B, S), np.int32)
    inputs = places(x=f32(B, S, 12), w=f32(12, 3 * W), b=f32(3 * W), mask=mask)
    for causal in (0, 1):  # 10000 is added to scores whose last digits are 0.001 then
        check("Attention", inputs, num_heads=N, unidirectional=causal, tolerance=2e-3)


def test_attention_without_a_past_yet() -> None:
    inputs = places(
        x=f32(B, S, 12), w=f32(12, 3 * W), b=f32(3 * W), mask=None, past=f32(2, B, N, 0, H)
    )
    check("Attention", inputs, ("y", "present"), num_heads=N, unidirectional=1)


def quantised(columns: bool, **more: np.ndarray | None) -> list[Named | None]:
    """Inputs of a product of bytes, of whose pairs no CPU's sums leave 16 bits."""
    count = 3 * W if columns else 1
    return places(
        x=RNG.integers(0, 200, (B, S, 12)).astype(np.uint8),
        w=RNG.integers(-60, 60, (12, 3 * W)).astype(np.int8), b=f32(3 * W),
        x_scale=np.float32([0.02]), w_scale=np.linspace(0.01, 0.03, count, dtype=np.float32),
        mask=more.get("mask"), x_zero=np.uint8([130]),
        w_zero=RNG.integers(-5, 5, count).astype(np.int8), past=more.get("past"),
    )  # fmt: skip


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("mask", ["none", "lengths", "keys"])
def test_attention_whose_projections_are_products_of_bytes(mask: str, constant: bool) -> None:
    """With scales that are constants, or that a run computes of its data."""
    weights = ("w", "b", "w_scale", "w_zero")
    constants = (*weights, "x_scale", "x_zero") if constant else weights
    for columns, past in ((False, 0), (True, 4)):
        inputs = quantised(
            columns, mask=mask_of(mask, past + S),
            past=f32(2, B, N, past, H) if past else None,
        )  # fmt: skip
        attrs = {"num_heads": N, "unidirectional": int(past > 0)}
        check("QAttention", inputs, ("y", "present"), constants, tolerance=5e-6, **attrs)


def test_attention_of_bytes_by_weights_that_are_no_constants() -> None:
    inputs = quantised(False)
    model = one_node("QAttention", inputs, "y", num_heads=N)
    with pytest.raises(NetworkError, match="QAttention: its weights must be constant bytes"):
        from_onnx(model)


def test_attention_with_a_square_mask() -> None:
    """ONNX Runtime has it on GPUs alone: its rows begin at the first token of all."""
    past, whole = 2, RNG.integers(0, 2, (B, 1, 9, 9)).astype(np.int32)
    whole[..., 0] = 1
    given = {
        "x": f32(B, S, 12), "w": f32(12, 3 * W), "b": f32(3 * W), "mask": whole,
        "past": f32(2, B, N, past, H),
    }  # fmt: skip
    part = given | {"mask": np.ascontiguousarray(whole[:, 0, past : past + S, : past + S])}
    here = one_node("Attention", places(**given), ("y", "p"), num_heads=N)
    there = one_node("Attention", places(**part), ("y", "p"), num_heads=N)
    compare(run_here(here, given), run_runtime(there, part))


MULTI = ("q", "k", "v", "bias", "mask", "scores", "past_k", "past_v")


@pytest.mark.parametrize("mask", ["none", "lengths", "lengths and offsets", "keys", "matrix"])
@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention(mask: str, past: int, causal: int) -> None:
    q, k, v = (f32(B, S, W) for _ in "qkv")
    pasts = [f32(B, N, past, H) if past else None for _ in "kv"]
    bias = f32(3 * W) if mask == "keys" else None
    scores = f32(1, N, S, past + S) if mask in ("lengths", "none") else None
    values = (q, k, v, bias, mask_of(mask, past + S), scores, *pasts)
    inputs = places(**dict(zip(MULTI, values, strict=True)))
    outputs = ("y", "present_k", "present_v", "qk")
    check("MultiHeadAttention", inputs, outputs, num_heads=N, unidirectional=causal)


@pytest.mark.parametrize("keys", [3, 7])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_to_another_sequence(keys: int, causal: int) -> None:
    """Values may be wider than keys, and both may stand in heads already."""
    attrs = {"num_heads": N, "unidirectional": causal}
    inputs = places(q=f32(B, S, W), k=f32(B, keys, W), v=f32(B, keys, N * 5), b=f32(2 * W + N * 5))
    check("MultiHeadAttention", inputs, **attrs)
    inputs = places(q=f32(B, S, W), k=f32(B, N, keys, H), v=f32(B, N, keys, H))
    check("MultiHeadAttention", inputs, **attrs)


def test_packed_operands_as_on_gpus() -> None:
    """[..., N, 3, H] and [..., N, 2, H] mean the same as operands one by one."""
    for count, length in ((3, S), (2, 7)):
        packed = f32(B, length, N, count, H)
        q = f32(B, S, W)
        parts = [packed[..., i, :].reshape(B, length, W) for i in range(count)]
        operands = parts if count == 3 else [q, *parts]
        given = dict(zip("qkv", operands, strict=True))
        (want,) = run_runtime(
            one_node("MultiHeadAttention", places(**given), "y", num_heads=N), given
        )
        given = {"q": packed} if count == 3 else {"q": q, "k": packed}
        here = one_node("MultiHeadAttention", places(**given), "y", num_heads=N)
        compare(run_here(here, given), [want])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("dim", [0, 4])
def test_rotary_embedding(interleaved: int, heads_first: bool, one: bool, dim: int) -> None:
    x = f32(B, N, S, H) if heads_first else f32(B, S, W)
    position = np.array([3]) if one else RNG.integers(0, 16, (B, S))
    pairs = (dim or H) // 2
    inputs = places(x=x, position=position, cos=f32(16, pairs), sin=f32(16, pairs))
    attrs: dict[str, Any] = {"interleaved": interleaved}
    if dim:
        attrs |= {"rotary_embedding_dim": dim, "num_heads": N}
    check("RotaryEmbedding", inputs, scale=2.0, **attrs)  # the scale is not used there either


# ------------------------------------------------------------ groups of queries

HEADS, GROUPS, SIZE = 6, 2, 16


def grouped(
    new: int,
    lengths: list[int],
    cached: int = 0,
    packed: bool = False,
    rotated: bool = False,
    position: np.ndarray | None = None,
    scores: tuple[int, ...] | None = None,
    sink: bool = False,
) -> dict[str, np.ndarray | None]:
    """Inputs of sequences that are so long with their new tokens; the longest counts as total."""
    batch, width = len(lengths), SIZE * GROUPS
    past = [f32(batch, GROUPS, cached, SIZE) if cached else None for _ in "kv"]
    parts = [None, None] if packed else [f32(batch, new, width) for _ in "kv"]
    table = [f32(32, SIZE // 2) if rotated else None for _ in "cs"]
    return {
        "q": f32(batch, new, HEADS * SIZE + (2 * width if packed else 0)),
        "k": parts[0], "v": parts[1], "past_k": past[0], "past_v": past[1],
        "last": np.array(lengths, np.int32) - 1, "total": np.array([max(lengths)], np.int32),
        "cos": table[0], "sin": table[1], "position": position,
        "scores": f32(*scores) if scores else None, "sink": f32(HEADS) if sink else None,
    }  # fmt: skip


def model_of(given: dict[str, np.ndarray | None], **attrs: object) -> Any:
    common = {
        "num_heads": HEADS,
        "kv_num_heads": GROUPS,
        "do_rotary": int(given["cos"] is not None),
    }
    outputs = ("y", "present_k", "present_v")
    return one_node("GroupQueryAttention", places(**given), outputs, ("total",), **common, **attrs)


def check_grouped(given: dict[str, np.ndarray | None], **attrs: object) -> None:
    model = model_of(given, **attrs)
    arrays = {k: v for k, v in given.items() if v is not None}
    compare(run_here(model, arrays), run_runtime(model, arrays))


CASES: dict[str, dict[str, Any]] = {
    "prompt": {"new": 5, "lengths": [3, 5]},
    "prompt into a buffer": {"new": 5, "lengths": [5, 4], "cached": 12},
    "one token": {"new": 1, "lengths": [5, 5], "cached": 4},
    "one token, unequal": {"new": 1, "lengths": [5, 3], "cached": 4},
    "one token, buffer": {"new": 1, "lengths": [9, 5], "cached": 12},
    "tokens": {"new": 3, "lengths": [8], "cached": 5},
    "tokens, buffer": {"new": 3, "lengths": [8], "cached": 12},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("interleaved", [None, 0, 1])
def test_groups(case: dict[str, Any], packed: bool, interleaved: int | None) -> None:
    given = grouped(**case, packed=packed, rotated=interleaved is not None)
    check_grouped(
        given, **({"rotary_interleaved": interleaved} if interleaved is not None else {})
    )


@pytest.mark.parametrize("window", [1, 3, 9])
def test_windows_of_groups(window: int) -> None:
    check_grouped(grouped(5, [5, 5]), local_window_size=window)
    check_grouped(grouped(1, [9, 5], 12), local_window_size=window)
    check_grouped(grouped(3, [8], 5), local_window_size=window)


@pytest.mark.parametrize(
    "attrs", [{"softcap": 2.0}, {"scale": 0.3}, {"smooth_softmax": 1}, {"causal": 0}]
)
def test_scores_of_groups(attrs: dict[str, object]) -> None:
    check_grouped(grouped(5, [5, 4]), **attrs)
    check_grouped(grouped(1, [9, 5], 12), **attrs)


def test_additions_to_scores_of_groups() -> None:
    check_grouped(grouped(5, [5, 4], scores=(2, HEADS, 5, 5)), softcap=2.0)
    check_grouped(grouped(1, [9, 5], 12, scores=(1, 1, 1, 9)))
    check_grouped(grouped(5, [5, 4], sink=True))
    check_grouped(grouped(1, [9, 5], 12, sink=True), local_window_size=3)


@pytest.mark.parametrize(
    "new, lengths, position",
    [(5, [5, 4], [[2] + [9] * 4, [4] + [9] * 4]), (1, [9, 5], [[3], [7]]), (3, [8], [[3, 9, 1]])],
)
def test_positions_of_groups(new: int, lengths: list[int], position: list[list[int]]) -> None:
    """At a prompt the first number alone is read, and the others count on from it."""
    cached = 0 if new == 5 else 12
    check_grouped(grouped(new, lengths, cached, rotated=True, position=np.array(position)))


def test_several_sequences_of_several_tokens() -> None:
    """ONNX Runtime takes them one by one."""
    given = grouped(3, [8, 6], 12, rotated=True)
    arrays = {k: v for k, v in given.items() if v is not None}
    got = run_here(model_of(given), arrays)
    for b in range(2):
        part = {
            k: v if v is None or k in ("cos", "sin", "total") else v[b : b + 1]
            for k, v in given.items()
        }
        part["total"] = part["last"] + 1
        arrays = {k: v for k, v in part.items() if v is not None}
        compare([g[b : b + 1] for g in got], run_runtime(model_of(part), arrays))


def test_groups_in_half_precision() -> None:
    given = grouped(1, [9, 5], 12, rotated=True)
    for k, v in given.items():
        given[k] = v.astype(np.float16) if v is not None and v.dtype == np.float32 else v
    model = model_of(given)
    arrays = {k: v for k, v in given.items() if v is not None}
    compare(run_here(model, arrays), run_runtime(model, arrays), 2e-3)


@pytest.mark.parametrize(
    "op, inputs, attrs, told",
    [
        ("Attention", {}, {"do_rotary": 1}, "use RotaryEmbedding and MultiHeadAttention"),
        ("Attention", {}, {"past_present_share_buffer": 1}, "optimise the model without it"),
        ("Attention", {"m": np.ones((7, 7), np.int32)}, {}, r"a mask of shape \[7, 7\]"),
        ("MultiHeadAttention", {"p": f32(2, 5, W)}, {}, r"of shape \[2, 5, 24\] does not hold 3"),
        ("GroupQueryAttention", {"query_seqlens": f32(2)}, {}, "input query_seqlens is not"),
        ("GroupQueryAttention", {}, {"k_quant_type": "PER_TENSOR"}, "a plain cache"),
        ("GroupQueryAttention", {}, {"local_window_size": 0}, "local_window_size is 0"),
        ("GroupQueryAttention", {"v": None}, {}, "inputs key and value one is left out"),
        ("RotaryEmbedding", {}, {"is_packed_batching": 1}, "give sequences of one length"),
    ],
)
def test_what_is_refused(
    op: str, inputs: dict[str, Any], attrs: dict[str, object], told: str
) -> None:
    if op == "Attention":
        given = {"x": f32(B, S, 12), "w": f32(12, 3 * W), "b": f32(3 * W), **inputs}
    elif op == "MultiHeadAttention":
        given = inputs
    elif op == "RotaryEmbedding":
        given = {"x": f32(B, S, W), "p": np.array([1]), "c": f32(9, 4), "s": f32(9, 4)}
    else:
        given = grouped(5, [5, 5])
        given |= dict.fromkeys("abcd") | inputs
        attrs = {"kv_num_heads": GROUPS, **attrs}
    heads = {} if op == "RotaryEmbedding" else {"num_heads": HEADS if "last" in given else N}
    with pytest.raises(NetworkError, match=told) as e:
        from_onnx(one_node(op, places(**given), "y", **heads, **attrs))
    assert "'node'" in str(e.value) and "\n" not in str(e.value)


def test_lengths_must_be_known() -> None:
    given = grouped(1, [5, 5], 4)
    model = one_node("GroupQueryAttention", places(**given), "y", num_heads=6, kv_num_heads=2)
    with pytest.raises(NetworkError, match=r"must be a constant .*; give the values of total"):
        from_onnx(model)
    from_onnx(model, values={"total": np.array([5], np.int32)})
