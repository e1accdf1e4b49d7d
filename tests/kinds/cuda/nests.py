"""Blocks of kernels for GPUs without rules, and random rows of them."""

from __future__ import annotations

import numpy as np

import tilework as tw
from tilework import te
from tilework.kinds.cuda.canonical import canonical
from tilework.kinds.cuda.decisions import decisions
from tilework.kinds.cuda.tiling import STAGED_DEPTH, TILED
from tilework.space.blocks import Attached, Block
from tilework.space.decision import Decision
from tilework.space.nest import BlockNest

A100 = tw.Target("cuda -model=a100")


def matmul(n, m, k, levels=TILED):
    """C[i, j] = sum over k: A[i, k] * B[k, j]."""
    a, b = te.placeholder((n, k), "A"), te.placeholder((k, m), "B")
    kk = te.reduce_axis(k, "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=[kk]), name="C")
    return Block(c.op, c.op.body, levels)


def conv(h, w, ci, co, kernel, stride=1, padding=0, levels=TILED):
    """A convolution, NHWC, whose padding is computed while it is staged."""
    p, oh = padding, (h + 2 * padding - kernel) // stride + 1
    ow = (w + 2 * p - kernel) // stride + 1
    data = te.placeholder((1, h, w, ci), "D")
    weights = te.placeholder((kernel, kernel, ci, co), "W")
    ry, rx = te.reduce_axis(kernel, "ry"), te.reduce_axis(kernel, "rx")
    rc = te.reduce_axis(ci, "rc")
    pad = te.compute(
        (1, h + 2 * p, w + 2 * p, ci),
        lambda n, y, x, c: te.if_then_else(
            te.all(y >= p, y < h + p, x >= p, x < w + p), data[n, y - p, x - p, c], te.const(0.0)
        ),
        name="pad",
    )
    out = te.compute(
        (1, oh, ow, co),
        lambda n, y, x, f: te.sum(
            pad[n, y * stride + ry, x * stride + rx, rc] * weights[ry, rx, rc, f],
            axis=[ry, rx, rc],
        ),
        name="conv",
    )
    attached = (Attached(pad.op, pad.op.body, STAGED_DEPTH),)
    return Block(out.op, out.op.body, levels, attached=attached)


def columns(block, target=A100):
    """The block's decisions with columns."""
    out, at = [], 0
    for d in decisions(block, target):
        own = tuple(range(at, at + d.choices.shape[1]))
        out.append(Decision(d.name, own, d.choices, d.kind, d.name, d.axis, d.attached))
        at += len(own)
    return out


def rows_of(block, count, seed=0, target=A100):
    """Random rows, valid or not."""
    rng, own = np.random.default_rng(seed), columns(block, target)
    rows = np.empty((count, sum(len(d.columns) for d in own)), np.int32)
    for d in own:
        rows[:, d.columns] = d.choices[rng.integers(len(d.choices), size=count)]
    return rows


def nest_of(block, rows, target=A100):
    """The nest of rows."""
    return BlockNest.of(block, rows, columns(block, target))


def canonical_rows(block, rows, target=A100):
    """The rows with columns without effect set to one form."""
    out, plain = rows.copy(), canonical(nest_of(block, rows, target))
    for d in columns(block, target):
        if d.kind in plain:
            out[:, d.columns[0]] = plain[d.kind]
    return out
