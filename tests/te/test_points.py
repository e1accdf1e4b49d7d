"""Computations whose extents a run brings are, at each point, those declared with its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import te
from tilework.errors import UnknownExtent
from tilework.index.symbols import symbol, symbols_of
from tilework.te.evaluate import evaluate
from tilework.te.points import at_point
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
