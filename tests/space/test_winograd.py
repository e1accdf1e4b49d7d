"""The Winograd rewriting: where it applies, that it is right, and what it leaves alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hosts import on_x86, runs_x86, x86
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.rules import CPU_RULES
from tilework.kinds.cpu.tactics import TACTICS
from tilework.model.draft import draft_of
from tilework.model.drafted import best_drafted
from tilework.ops.conv import output_size
from tilework.ops.pad import pad
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace
from tilework.space.straightline import straight_line
from tilework.space.winograd import WeightTransform, winograd_variants
from tilework.space.winograd.error import rounding_error
from tilework.space.winograd.matrices import data_matrix, result_matrix, weight_matrix
from tilework.space.winograd.rule import winograd_of_groups
from tilework.target import Target
from tilework.task import SearchTask

NATIVE = "llvm -num-cores=2"


def conv(size, cin, cout, *, kernel=3, stride=1, border=1, free=True, relu=True):
    data = te.placeholder((1, size, size, cin), "p0")
    weight = te.placeholder((kernel, kernel, cin, cout), "p1")
    full = size + 2 * border
    inside = te.compute(
        (1, full, full, cin),
        lambda n, h, w, c: te.if_then_else(
            te.all(h >= border, h < size + border, w >= border, w < size + border),
            data[n, h - border, w - border, c],
            0.0,
        ),
        "pad_temp",
    )
    source = inside if border else data
    ry, rx = te.reduce_axis(kernel, "ry"), te.reduce_axis(kernel, "rx")
    rc = te.reduce_axis(cin, "rc")
    out = (full - kernel) // stride + 1
    result = te.compute(
        (1, out, out, cout),
        lambda n, y, x, f: te.sum(
            source[n, y * stride + ry, x * stride + rx, rc] * weight[ry, rx, rc, f],
            axis=[ry, rx, rc],
        ),
        "conv",
        {"layout_free": ("p1",)} if free else {},
    )
    if relu:
        plain = result
        result = te.compute(plain.shape, lambda n, y, x, f: te.relu(plain[n, y, x, f]), "T_relu")
    return te.ComputeDAG([data, weight, result])


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("size,border", [(8, 1), (7, 1), (13, 0), (5, 2)])
def test_the_rewritten_dag_computes_the_same(tile, size, border):
    dag = conv(size, 16, 19, border=border)
    (variant,) = winograd_variants(dag, (tile,))
    rng = np.random.default_rng(0)
    data, weight = (rng.uniform(-1, 1, t.shape).astype("float32") for t in dag.inputs)
    (want,) = te.evaluate(dag, [data, weight])
    transformed = variant.transforms["p1"].apply(weight)
    assert transformed.shape == (tile + 2, tile + 2, 16, 19)
    (got,) = te.evaluate(variant.dag, [data, transformed])
    assert np.abs(got - want).max() < 2e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": 1, "border": 0},
        {"kernel": 4, "border": 2},
        {"kernel": 9, "border": 4},
        {"stride": 2},
        {"free": False},
        {"cin": 3},
    ],
)
def test_it_applies_to_wide_constant_odd_stride_1_convolutions_only(arguments):
    arguments = {"size": 8, "cin": 16, "cout": 16} | arguments
    assert winograd_variants(conv(**arguments)) == []


def windows(
    sizes, taps, cin, cout, *, batch=1, pads=None, strides=None, dilations=None, order=None,
    groups=(),
):  # fmt: skip
    """A convolution over any number of dimensions; the weights' dimensions in ``order``.

    ``groups`` is a number of groups, of ``cin`` and ``cout`` channels each, or none.
    """
    n, rest = len(sizes), (0,) * (1 + len(groups))
    pads, strides, dilations = pads or [(1, 1)] * n, strides or [1] * n, dilations or [1] * n
    data = te.placeholder((batch, *sizes, *groups, cin), "p0")
    before, after = zip(*pads, strict=True)
    inside = pad(data, (0, *before, *rest), (0, *after, *rest), name="pad")
    out = [
        output_size(*each)
        for each in zip(sizes, taps, *zip(*pads, strict=True), strides, dilations, strict=True)
    ]
    shape = (*taps, cin, *groups, cout)
    order = order or range(len(shape))
    weight = te.placeholder(tuple(shape[d] for d in order), "p1")
    reduce = [te.reduce_axis(t, f"r{i}") for i, t in enumerate(taps)]
    rc = te.reduce_axis(cin, "rc")

    def body(*at):
        moved = zip(at[1 : n + 1], strides, reduce, dilations, strict=True)
        where = [y * s + r * d for y, s, r, d in moved]
        own = (*reduce, rc, *at[n + 1 :])
        product = (
            inside[(at[0], *where, *at[n + 1 : -1], rc)] * weight[tuple(own[d] for d in order)]
        )
        return te.sum(product, axis=[*reduce, rc])

    conv = te.compute(
        (batch, *out, *groups, cout), body, "conv", {"layout_free": ("p1",)},
        axis_names=[f"i{k}" for k in range(len(shape))],
    )  # fmt: skip
    return te.ComputeDAG([data, weight, conv])


FORMS = {
    "F(1x2, 1x3)": windows((3, 7), (1, 3), 16, 16, pads=[(0, 0), (1, 1)]),
    "F(4x1, 3x1)": windows((13, 2), (3, 1), 17, 16, pads=[(1, 1), (0, 0)], batch=2),
    "F(4, 3)": windows((35,), (3,), 16, 33),
    "F(1x4x4, 3x3x3)": windows((3, 5, 7), (3, 3, 3), 16, 18),
    "F(1x2x2, 3x3x3)": windows((4, 3, 5), (3, 3, 3), 16, 16, strides=[2, 1, 1], batch=2),
    "F(1x4, 3x3)": windows((7, 9), (3, 3), 16, 16, dilations=[2, 1]),
    "F(1x2, 5x3)": windows((9, 6), (5, 3), 16, 16, pads=[(2, 2), (1, 1)]),
    "F(4x4, 3x3)": windows((17, 5), (3, 3), 16, 16, pads=[(1, 0), (0, 2)], order=(3, 2, 0, 1)),
    "F(2x2, 3x3)": windows((7, 7), (3, 3), 17, 19, pads=[(2, 0), (0, 0)], batch=3),
    "F(2x2, 5x5)": windows((9, 12), (5, 5), 16, 18, pads=[(2, 2), (2, 1)]),
    "F(2x1, 5x2)": windows((7, 6), (5, 2), 17, 16, batch=2),
    "F(1x2, 1x7)": windows((3, 17), (1, 7), 16, 20, pads=[(0, 0), (3, 3)]),
    "F(2x1, 7x1)": windows((8, 3), (7, 1), 17, 16, pads=[(3, 3), (0, 0)], batch=2),
    "F(1x2, 7x7)": windows((9, 8), (7, 7), 16, 16, pads=[(3, 3), (3, 3)]),
    "F(4x4, 3x3) of groups": windows((9, 6), (3, 3), 16, 17, groups=(3,)),
    "F(2x2, 3x3) of groups": windows((7, 5), (3, 3), 17, 16, groups=(2,), order=(4, 2, 0, 3, 1)),
    "F(4, 3) of groups": windows((13,), (3,), 16, 24, groups=(2,), batch=2),
    "F(1x2x2, 3x3x3) of groups": windows((3, 4, 5), (3, 3, 3), 16, 16, groups=(2,)),
}


def generated(task, inputs, want, rng, rows, *, only=""):
    """Largest error of random schedules of each Winograd form, relative to the largest output."""
    worst = {}
    for sketch in SearchSpace.of(task).sketches:
        if not sketch.transforms or only not in sketch.name:
            continue
        form = sketch.name.split(";")[0].removeprefix("winograd ")
        for row in sketch.sample(rng, rows):
            kernel = build(task, sketch.id, row)
            arrays = [
                aligned_copy(a.packing.apply(x) if a.packing else x)
                for a, x in zip(kernel.args, inputs, strict=False)
            ]
            got = aligned_empty(want.shape, "float32")
            workspace = aligned_empty((kernel.workspace_bytes(2),), "uint8")
            for threads in (1, 2):
                got.fill(np.nan)
                workspace.fill(0xFF)
                load_kernel(kernel)([*arrays, got], workspace, threads)
                error = np.abs(got - want).max() / np.abs(want).max()
                assert error == error, (sketch.name, row)
                worst[form] = max(worst.get(form, 0.0), float(error))
    return worst


def random_case(dag, target, seed):
    task = SearchTask(dag, Target(target))
    rng = np.random.default_rng(seed)
    inputs = [rng.uniform(-1, 1, t.shape).astype("float32") for t in dag.inputs]
    (want,) = te.evaluate(dag, inputs, "float64")
    return task, rng, inputs, want


def bound(form):
    """What the documentation states: relative to the largest output."""
    tiles, taps = (map(int, part.split("x")) for part in form[2:-1].split(", "))
    points = max(m + t - 1 for m, t in zip(tiles, taps, strict=True) if m > 1)
    return 1e-4 if points >= 6 else 2e-5


@pytest.mark.parametrize("form", FORMS)
def test_windows_of_other_dimensions(form):
    task, rng, inputs, want = random_case(FORMS[form], NATIVE, 2)
    form = form.removesuffix(" of groups")
    errors = generated(task, inputs, want, rng, 1, only=form)
    assert form in errors
    assert errors[form] < bound(form)


@pytest.mark.parametrize(
    "target,size,cin,cout,relu",
    [
        (NATIVE, 9, 16, 40, True),
        pytest.param("llvm -mcpu=core-avx2 -num-cores=2", 14, 17, 16, False, marks=runs_x86),
    ],
)
def test_generated_code_agrees_with_the_direct_form(target, size, cin, cout, relu):
    dag = conv(size, cin, cout, relu=relu)
    task, rng, inputs, want = random_case(dag, target, 1)
    assert len([s for s in SearchSpace.of(task).sketches if s.transforms]) == 4
    errors = generated(task, inputs, want, rng, 2)
    assert errors.keys() == {"F(2x2, 3x3)", "F(4x4, 3x3)"}
    assert all(e < bound(form) for form, e in errors.items())


@pytest.mark.parametrize("target", [NATIVE, *on_x86("llvm -mcpu=core-avx2 -num-cores=2")])
def test_random_shapes(target):
    @settings(
        max_examples=16, deadline=None, database=None, derandomize=True,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data(), st.integers(0, 2**31))
    def every(data, seed):
        n = data.draw(st.integers(1, 3))
        sizes = data.draw(st.tuples(*[st.sampled_from([3, 5, 7, 8, 13, 17][: 8 - 2 * n])] * n))
        taps = data.draw(st.tuples(*[st.sampled_from([1, 3, 3, 5, 7])] * n))
        each = st.tuples(st.integers(0, 2), st.integers(0, 2))
        pads = data.draw(st.tuples(*[each] * n))
        room = [s + sum(p) for s, p in zip(sizes, pads, strict=True)]
        taps = tuple(t if t <= r else 1 for t, r in zip(taps, room, strict=True))
        dag = windows(
            sizes, taps, *data.draw(st.tuples(*[st.sampled_from([16, 17, 23])] * 2)),
            batch=data.draw(st.sampled_from([1, 1, 2])), pads=pads,
            groups=data.draw(st.sampled_from([(), (), (2,), (3,)])),
        )  # fmt: skip
        task, rng, inputs, want = random_case(dag, target, seed)
        for form, error in generated(task, inputs, want, rng, 1).items():
            assert error < bound(form), (str(dag), form)

    every()


GROUPED = windows((14, 14), (3, 3), 24, 24, groups=(2,))


def test_forms_of_groups_stand_behind_all_other_sketches():
    """Numbers and rows of the others are what they were before there were such forms."""
    task = SearchTask(GROUPED, Target(x86("x86-64-v3", 2)))
    sketches = SearchSpace.derive(GROUPED, task.target).sketches
    rules = [r for r in CPU_RULES if r is not winograd_of_groups]
    direct = SearchSpace.derive(GROUPED, task.target, rules).sketches
    assert [s.name for s in sketches[: len(direct)]] == [s.name for s in direct]
    assert all(s.transforms for s in sketches[len(direct) :])
    assert len(sketches) > len(direct)


def test_few_channels_a_group_stay_direct():
    assert winograd_variants(windows((14, 14), (3, 3), 8, 8, groups=(4,))) == []


@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4"])
@pytest.mark.parametrize("size, channels, groups", [(56, 32, 2), (28, 40, 5)])
def test_the_draft_takes_the_form_of_groups_that_pays(cpu, size, channels, groups):
    """ResNeSt's and RegNet's: on an AVX2 machine they take half the time of the direct form."""
    task = SearchTask(
        windows((size,) * 2, (3, 3), channels, 64, groups=(groups,)), Target(x86(cpu, 1))
    )
    choice = best_drafted(
        task.workload_key, str(task.target), SearchSpace.of(task).sketches, draft_of(task.target)
    )
    assert choice is not None
    form = SearchSpace.of(task).sketch(choice.choice.sketch_id).form
    assert form.startswith("winograd F(4x4, 3x3)")  # slab by slab, or in one piece


def test_the_error_of_groups_is_that_of_each():
    """Weights of one group among small ones: its error counts, relative to the largest output."""
    (variant,) = winograd_variants(GROUPED, (4,))
    transform, rng = variant.transforms["p1"], np.random.default_rng(0)
    weight = rng.standard_normal(transform.source).astype("float32")
    alone = WeightTransform(4, (3, 3, 24, 24), (0, 1), (2, 3))
    each = [rounding_error(alone, weight[..., g, :]) for g in range(2)]
    assert 0.5 * min(each) < rounding_error(transform, weight) < 2 * max(each)
    weight[..., 0, :] += 1000 * weight.mean(axis=(0, 1, 2))[0]
    assert rounding_error(transform, weight) > 0.3 * rounding_error(alone, weight[..., 0, :])


def test_transforms_take_few_operations():
    """The sequences are right, and as short as the known hand-made ones."""
    rng = np.random.default_rng(0)
    for m, data, results in ((2, 4, 4), (4, 12, 10)):
        for matrix, operations in ((data_matrix(m, 3), data), (result_matrix(m, 3), results)):
            line = straight_line(matrix)
            values = list(rng.uniform(-1, 1, line.inputs))
            wanted = np.array(matrix) @ values
            for terms in line.sums:
                values.append(sum(c * values[i] for c, i in terms))
            np.testing.assert_allclose([values[i] for i in line.outputs], wanted)
            assert line.operations == operations


@pytest.mark.parametrize("tile,taps", [(2, 3), (4, 3), (2, 5), (2, 7)])
def test_the_matrices_make_a_filter(tile, taps):
    rng = np.random.default_rng(0)
    data, weight = rng.standard_normal(tile + taps - 1), rng.standard_normal(taps)
    b, g, a = (np.array(f(tile, taps)) for f in (data_matrix, weight_matrix, result_matrix))
    want = [data[i : i + taps] @ weight for i in range(tile)]
    np.testing.assert_allclose(a @ ((g @ weight) * (b @ data)), want, atol=1e-12)


def test_weights_are_transformed_before_they_are_cut():
    weight = np.zeros((3, 3, 1, 1), "float32")
    weight[1, 1] = 1
    u = WeightTransform(2, (3, 3, 1, 1), (0, 1), (2, 3)).apply(weight)[:, :, 0, 0]
    column = np.array([0, 0.5, -0.5, 0], "float32")
    np.testing.assert_allclose(u, np.outer(column, column))


def test_points_of_a_tile_do_not_share_few_cache_sets():
    spread = TACTICS.spread
    assert spread((1, 4, 6, 6, 4, 256), "float32") == (1, 4, 6, 6, 4, 272)
    assert spread((1, 7, 6, 6, 7, 128), "float32") == (1, 7, 6, 6, 7, 128)
    assert spread((1, 6, 4, 64), "float32") == (1, 6, 4, 80)


def test_of_any_number_of_tiles_an_odd_one_is_kept():
    n, odd = symbol("n", 1, 28), lambda extent: extent // 2 * 2 + 1
    assert TACTICS.spread((1, 6, 6, n, 48), "float32") == (1, 6, 6, odd(n), 48)
    assert TACTICS.spread((1, 6, 6, n, 128), "float32") == (1, 6, 6, odd(n), 144)
    assert TACTICS.spread((1, 6, 6, 2 * n, 8), "float32") == (1, 6, 6, odd(2 * n), 8)
    few = symbol("few", 1, 3)  # too few for slices of 1024 bytes
    assert TACTICS.spread((1, 6, 6, few, 64), "float32") == (1, 6, 6, few, 64)


@pytest.mark.parametrize("size,channels", [(56, 64), (14, 256)])
def test_the_draft_model_counts_what_transforms_save(size, channels):
    """On a machine with one multiply-add per cycle: direct > F(2x2) > F(4x4)."""
    task = SearchTask(conv(size, channels, channels), Target(x86("znver4", 1)))
    rng = np.random.default_rng(0)
    best: dict[str, float] = {}
    for sketch in SearchSpace.of(task).sketches:
        form = sketch.name.split(";")[0] if sketch.transforms else "direct"
        seconds = draft_of(sketch.target).seconds(sketch, sketch.sample(rng, 512)).min()
        best[form] = min(best.get(form, np.inf), float(seconds))
    assert best["winograd F(4x4, 3x3)"] < 0.9 * best["winograd F(2x2, 3x3)"]
    assert best["winograd F(2x2, 3x3)"] < 0.7 * best["direct"]


@pytest.mark.parametrize("window, rest", [((0, 1), (2, 3)), ((0,), (1, 2, 3))])
@pytest.mark.parametrize("tile", [2, 4])
def test_transformed_weights_are_rounded_once(tile, window, rest):
    """Sums are in double: what is stored is within half a unit of the exact number."""
    weight = np.random.default_rng(0).standard_normal((3, 3, 40, 70)).astype(np.float32)
    got = WeightTransform(tile, weight.shape, window, rest).apply(weight)
    rows = [[Fraction(x).limit_denominator(1000) for x in row] for row in weight_matrix(tile, 3)]
    factor = np.array([[np.longdouble(x.numerator) / x.denominator for x in r] for r in rows])
    want = weight.astype(np.longdouble)
    for i in range(len(window)):
        want = np.moveaxis(np.tensordot(factor, want, axes=(1, i)), 0, i)
    unit = np.spacing(np.abs(got)).astype(np.longdouble)
    assert np.max(np.abs(got - want) / unit) < 0.5001


@pytest.mark.parametrize("outputs", [1, 33])
def test_weights_as_files_have_them_become_the_same_bits(outputs):
    """Windows that are pieces of memory, outputs first: read in other parts, and as pieces."""
    file = np.random.default_rng(0).standard_normal((outputs, 600, 3, 3)).astype("float32")
    weight = file.transpose(2, 3, 1, 0)
    transform = WeightTransform(4, weight.shape, (0, 1), (2, 3))
    np.testing.assert_array_equal(
        transform.apply(weight), transform.apply(np.ascontiguousarray(weight))
    )
