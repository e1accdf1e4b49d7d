"""Computations whose extents a run brings are, at each point, those declared with its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import te
from tilework.errors import UnknownExtent
from tilework.index.symbols import symbol, symbols_of
from tilework.te.evaluate import evaluate
from tilework.te.points import at_point, seen_at
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json


def softmax_of_scores(batch, seq):
    """Scores, divided by a number that hangs on the sequence, and a mean over it."""
    q, k = te.placeholder((batch, seq, 8), "q"), te.placeholder((batch, seq, 8), "k")
    d = te.reduce_axis(8, "d")
    scores = te.compute(
        (batch, seq, seq), lambda b, i, j: te.sum(q[b, i, d] * k[b, j, d], axis=d), "scores"
    )
    flat = te.compute((batch * seq, seq), lambda n, j: scores[n // seq, n % seq, j] * 0.5, "flat")
    j = te.reduce_axis(seq, "j")
    total = te.compute((batch * seq,), lambda n: te.sum(flat[n, j], axis=j), "total")
    return te.ComputeDAG([q, k, total])


def test_at_a_point_it_is_the_static_one():
    batch, seq = symbol("batch", 1, 4), symbol("seq", 1, 512, (16, 128))
    dag = softmax_of_scores(batch, seq)
    b, s = dag.symbols
    assert (b.name, s.name) == ("batch", "seq") and symbols_of([batch, seq]) == (b, s)
    for at in ({b: 1, s: 1}, {b: 3, s: 7}):
        static = softmax_of_scores(*at.values())
        assert at_point(dag, at).workload_key == static.workload_key
        rng = np.random.default_rng(0)
        given = [rng.random(t.shape, np.float32) for t in static.inputs]
        (ours,), (theirs,) = evaluate(at_point(dag, at), given), evaluate(static, given)
        assert np.array_equal(ours, theirs)


def test_what_holds_no_other_extent_stays_what_it_is():
    seq = symbol("seq", 1, 512, (16, 128))
    w, scale = te.placeholder((8,), "w"), te.placeholder((seq,), "scale")
    twice = te.compute((8,), lambda i: w[i] * 2.0, "twice")
    out = te.compute((seq, 8), lambda n, i: scale[n] * twice[i], "out")
    dag, (s,) = te.ComputeDAG([w, scale, out]), symbols_of([seq])
    there = seen_at({s: 16})
    seen = there.dag(dag)
    same = [new is old for new, old in zip(seen.ops, dag.ops, strict=True)]
    assert same == [op in (w.op, twice.op) for op in dag.ops]
    assert seen.compute_ops[-1].axes[0].typical == 16 and out.op.axes[0].typical == 128
    held = {"stages": (twice.op, out.op), "axes": frozenset(out.op.axes)}
    assert there.of(held)["stages"] == (twice.op, seen.compute_ops[-1])
    assert there.of(held)["axes"] == set(seen.compute_ops[-1].axes)
    assert seen_at({s: 16}).of((w, twice.op, None, "text")) == (w, twice.op, None, "text")


def test_keys_tell_ranges_and_names_apart():
    def key(name, high):
        return softmax_of_scores(2, symbol(name, 1, high)).workload_key

    assert key("seq", 512) == key("seq", 512)
    assert len({key("seq", 512), key("seq", 256), key("length", 512)}) == 3


def test_documents_of_families():
    dag = softmax_of_scores(symbol("batch", 1, 4), symbol("seq", 1, 512, (16, 128)))
    text = dag_to_json(dag)
    again = dag_from_json(text)
    assert again.workload_key == dag.workload_key and again.symbols == dag.symbols
    assert dag_to_json(again) == text
    for odd in ('["seq",0,512,[16,128]]', '["seq",9,5,[16,128]]', '["length",1,512,[16,128]]'):
        with pytest.raises(DagFormatError):
            dag_from_json(text.replace('["seq",1,512,[16,128]]', odd))


def test_no_number_no_values():
    dag = softmax_of_scores(2, symbol("seq", 1, 4))
    with pytest.raises((UnknownExtent, ValueError), match="seq"):
        evaluate(dag, [np.zeros((2, 3, 8), np.float32)] * 2)
