"""One module runs at every shape of its ranges."""

from __future__ import annotations

import gc
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.graph import symbolic_models
from tests.runtime import symbolic
from tests.runtime.files import rewrite
from tilework import compile as compile_
from tilework import from_onnx, load_module
from tilework.errors import ModuleError, NetworkError, ShapeError
from tilework.index.extents import shape_at
from tilework.index.symbols import symbol
from tilework.runtime import Module
from tilework.runtime.arena import Arena, Lifetime
from tilework.runtime.layout import KEPT, Plan
from tilework.runtime.sizes import Sizes

POINTS = [(0, 1), (0, 600), (512, 1), (3, 7), (127, 31), (128, 16), (512, 600), (1, 1)]


@pytest.fixture(scope="module")
def sums():
    return symbolic.module()


def same(got, wanted):
    return all(np.array_equal(g, w) for g, w in zip(got, wanted, strict=True))


@pytest.mark.parametrize("past, seq", POINTS)
def test_every_shape(sums, past, seq):
    given = symbolic.inputs(past, seq)
    got = sums.run(*given)
    assert [g.shape for g in got] == [(past + seq, 8), (seq, 8)]
    assert same(got, symbolic.expected(*given))


def test_shapes_in_turns(sums):
    rng = np.random.default_rng(1)
    for _ in range(3 * KEPT):
        given = symbolic.inputs(int(rng.integers(0, 513)), int(rng.integers(1, 601)))
        assert same(sums.run(*given), symbolic.expected(*given))


def test_a_poisoned_arena(sums, monkeypatch):
    """What an earlier run left in memory decides nothing."""
    for past, seq in POINTS:
        given = symbolic.inputs(past, seq)
        sums.run(*given)
        for context in sums._contexts.idle:
            context._arena[...] = 0xFF
            context._workspace[...] = 0xFF
        assert same(sums.run(*given), symbolic.expected(*given))


def test_the_largest_arena_is_kept():
    module = symbolic.module()
    module.run(*symbolic.inputs(512, 600))
    (context,) = module._contexts.idle
    largest = context._arena
    module.run(*symbolic.inputs(0, 1))
    assert module._contexts.idle == [context] and context._arena is largest


def test_sites_and_layouts_are_bounded():
    module = symbolic.module()
    for seq in range(600, 600 - KEPT - 3, -1):
        module.run(*symbolic.inputs(0, seq))
    sites = module._contexts.sites
    assert len(sites._shapes) == KEPT and len(sites._plan._layouts) <= KEPT


def test_what_ranges_prove_is_not_looked_at_again():
    """All but what has to be known: distinct sizes, offsets in a value, workspaces, behind."""
    plan = Plan(symbolic.image())
    assert plan._proved and list(map(len, plan._sizes.at(0, 1))) == [2, 2, 1, 1, 5, 0, 0, 0, 0]


def test_values_are_not_placed_anew_next_to_a_past_that_grows(monkeypatch):
    """Values of several sizes grow: one that has spare room keeps it while another gets some."""
    placed, place = [], Arena.place
    monkeypatch.setattr(
        Arena, "place", lambda self, sizes: placed.append(sizes) or place(self, sizes)
    )
    few = Lifetime(4 * symbolic.PAST, 0, 1)  # has spare room for more steps than the others
    module = symbolic.module(lifetimes=(*symbolic.image().lifetimes, few))
    for past in range(100, 400):
        given = symbolic.inputs(past, 1)
        assert same(module.run(*given), symbolic.expected(*given))
    assert len(placed) < 12


def test_an_arena_grows_where_it_is():
    """There are addresses for as much again: a run that needs more touches what is more alone."""
    module = symbolic.module()
    seen = []
    for past in range(100, 300):
        module.run(*symbolic.inputs(past, 1))
        seen.append(module._contexts.idle[0]._arena)
    assert len({id(a) for a in seen}) < 4
    assert seen[-1].nbytes < 2.5 * module.image_at({"past": 299, "seq": 1}).arena_bytes


def test_a_bound_call_is_for_a_shape(sums):
    given = symbolic.inputs(5, 9)
    call = sums.bind(at={"past": 5, "seq": 9})
    for array, mine in zip(given, call.inputs.values(), strict=True):
        mine[...] = array
    other = symbolic.inputs(100, 200)
    for _ in range(3):
        assert same(call(), symbolic.expected(*given))
        assert same(sums.run(*other), symbolic.expected(*other))
        gc.collect()
    with pytest.raises(ModuleError, match=r"symbolic: bind all inputs, or .*at=\{'past': 128"):
        sums.bind()


def test_threads_at_different_shapes(sums):
    def work(k):
        rng = np.random.default_rng(k)
        for _ in range(20):
            given = symbolic.inputs(int(rng.integers(0, 300)), int(rng.integers(1, 300)), k)
            if not same(sums.run(*given), symbolic.expected(*given)):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_the_pool_judges_each_shape(monkeypatch):
    module = symbolic.module(cores=2)
    for past, seq in POINTS[:3]:
        given = symbolic.inputs(past, seq)
        for _ in range(20):
            assert same(module.run(*given), symbolic.expected(*given))
    loaded = module._contexts.loaded()
    sites = [module._contexts.sites.named({"past": p, "seq": n}) for p, n in POINTS[:3]]
    seen = [loaded.judged(site) for site in sites]
    assert all(record.any() for record in seen) and len({id(record) for record in seen}) == 3
    near = module._contexts.sites.named({"past": 0, "seq": 599})
    assert loaded.judged(near) is seen[1]


def test_what_is_known_goes_with_a_past_that_grows():
    """A choice that is made is there for the next shape; one that is being tried is not."""
    module = symbolic.module(cores=2)
    loaded = module._contexts.loaded()

    def record(past, seq):
        return loaded.judged(module._contexts.sites.named({"past": past, "seq": seq}))

    steps = [record(past, 1) for past in (16, 20, 24, 28, 32, 64)]
    steps[3][:] = made = [90, 100, 7, 2, 90, 500, 3, 600]  # the team was chosen
    assert not any(step.any() for step in (*steps[:3], *steps[4:]))
    for past in (24, 16, 32, 40):
        assert (record(past, 1) == made).all()
    steps[1][3] = 1  # being tried: that goes on
    assert record(20, 1)[0] == 0 and record(64, 1)[3] == 0 and record(28, 8)[3] == 0


@pytest.mark.parametrize(
    "shapes, told",
    [
        ([(601, 8), (0, 8), (601, 8)], "seq is 601, by .* input x, outside of its range 1 to 600"),
        ([(0, 8), (4, 8), (4, 8)], "seq is 0, by .* outside of its range 1 to 600"),
        (
            [(4, 8), (3, 8), (8, 8)],
            r"dimension 0 of input z is 8, not past \+ seq = 7, with past = 3 by .* input y, "
            r"seq = 4 by .* input x \(past is 0 to 512, seq is 1 to 600\)",
        ),
        ([(4, 9), (3, 8), (7, 8)], r"input x: expected float32\[seq, 8\], got .*\[4, 9\]"),
        ([(4,), (3, 8), (7, 8)], r"input x: expected float32\[seq, 8\], got .*\[4\]"),
    ],
)
def test_shapes_that_do_not_fit(sums, shapes, told):
    with pytest.raises(ShapeError, match=rf"^module sums: {told}") as e:
        sums.run(*(np.zeros(s, np.float32) for s in shapes))
    assert "\n" not in str(e.value)


def test_two_inputs_that_disagree():
    image = symbolic.image()
    x, y, z = image.inputs
    changed = symbolic.image(inputs=(x, y, type(z)("z", (symbolic.SEQ, 8), "float32", 2)))
    with pytest.raises(ShapeError, match=r"input z is 5, not seq = 4, with seq = 4 by .* input x"):
        Module(changed).run(*(np.zeros((n, 8), np.float32) for n in (4, 3, 5)))


def test_symbols_that_no_input_tells():
    image = symbolic.image()
    with pytest.raises(ShapeError, match="do not say what past, seq is"):
        symbolic.module(inputs=image.inputs[2:], outputs=())


def test_a_symbol_of_an_expression():
    """``past`` stands in no shape by itself: it is what ``past + seq`` leaves."""
    from tilework.runtime.solve import Solver

    x, _, z = symbolic.image().inputs
    solver = Solver("module", (z, x), symbolic.image().symbols)
    assert solver.point([(12, 8), (5, 8)]) == (7, 5)
    with pytest.raises(ShapeError, match="past is -1, by dimension 0 of input z, outside"):
        solver.point([(4, 8), (5, 8)])


def test_sizes_are_what_extents_are():
    """Of random polynomials with floors in floors, at random points; numbers may be large."""
    rng = random.Random(0)
    symbols = [symbol(name, 0, 1 << 40) for name in ("a b", "s1", "f0")]
    extents = [*symbols, 0, -3]
    for _ in range(60):
        a, b = rng.choices(extents, k=2)
        by = rng.randint(2, 9)
        extents.append(rng.choice([a + b, a - 2 * b, a * by, (a + by) // by, a // by * b]))
    given = [s for e in symbols for s in e.symbols]
    sizes = Sizes(given, [extents[:20], [], extents[20:]])
    for _ in range(9):
        values = [rng.choice([0, 1, 7, rng.randint(0, 1 << 40)]) for _ in symbols]
        wanted = shape_at(extents, dict(zip(given, values, strict=True)))
        assert sizes.at(*values) == (wanted[:20], (), wanted[20:])


def test_tables_of_a_shape(sums):
    rows = sums.profile(repeat=2, at={"seq": 3, "past": 2})
    assert len(rows) == 7 and all(row.time_ms >= 0 for row in rows)
    assert sums.benchmark(1, 1, at={"seq": 3}).median > 0
    assert set(sums.kernels_alone(at={"seq": 2})) == {"add_seq", "add_past", "add_both"}
    assert "seq 1 to 600, typically 1, 16, 384" in sums.summary()
    with pytest.raises(ShapeError, match="no symbol batch; its symbols: past, seq"):
        sums.benchmark(1, 1, at={"batch": 3})
    with pytest.raises(ShapeError, match="seq is 700, outside of its range"):
        sums.profile(at={"seq": 700})


def test_the_image_of_a_shape_is_that_of_a_static_module():
    from tilework.runtime.references import check_references

    image = symbolic.module().image_at({"past": 4, "seq": 5})
    assert [v.shape for v in image.inputs] == [(5, 8), (4, 8), (9, 8)]
    assert {r.space for s in image.steps for r in s.args} == {"arena", "io", "symbol"}
    assert image.steps[2].args[2].at + 4 * 32 == image.steps[3].args[2].at
    assert image.arena_bytes == 64 * (3 + 5 + 5)
    assert image.workspace_bytes(2) == 9 * 32 + 2 * 5 * 64
    with pytest.raises(ModuleError, match="refers to 'symbol'"):
        check_references(replace(image, symbols=()))


def test_files(sums, tmp_path):
    sums.save(tmp_path / "sums.tw")
    loaded = load_module(tmp_path / "sums.tw")
    assert loaded.symbols == sums.symbols and loaded.image.steps == sums.image.steps
    assert loaded.image.lifetimes == sums.image.lifetimes
    given = symbolic.inputs(3, 4)
    assert same(loaded.run(*given), symbolic.expected(*given))
    loaded.save(tmp_path / "again.tw")
    assert (tmp_path / "again.tw").read_bytes() == (tmp_path / "sums.tw").read_bytes()


DAMAGE = {
    "no table of symbols": (lambda m: m["image"].pop("symbols"), "should have the fields"),
    "a range of nothing": (lambda m: m["image"]["symbols"].__setitem__(0, ["past", 3, 2, [3]]),
                           "is no symbol"),
    "a name twice": (lambda m: m["image"]["symbols"].append(["seq", 1, 4, [2]]), "of one name"),
    "another name": (lambda m: m["image"]["symbols"][0].__setitem__(0, "other"), "no symbol of"),
    "an odd extent": (lambda m: m["image"]["inputs"][0]["shape"].__setitem__(0, [[1, ["seq"]]]),
                      "no symbol of"),
    "a place without a value": (lambda m: m["image"]["places"].append([7, 0]), "value 7 of 4"),
    "a lifetime backwards": (lambda m: m["image"]["lifetimes"][0].update(first=3), "from 3 to 1"),
    "another place": (lambda m: m["image"]["steps"][0]["args"][2].__setitem__(1, 9), "place 9"),
    "another symbol": (lambda m: m["image"]["steps"][0]["args"][3].__setitem__(1, 2), "symbol 2"),
    "an arena": (lambda m: m["image"].update(arena_bytes=64), "beside symbols"),
    "a place in the arena": (lambda m: m["image"]["steps"][0]["args"].__setitem__(
        2, ["arena", 0, 32]), "'arena'"),
    "no input tells": (lambda m: m["image"].update(inputs=m["image"]["inputs"][:1]), "io buffers"),
    "a negative extent": (lambda m: m["image"]["inputs"][0]["shape"].__setitem__(1, -8), "shape"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(sums, tmp_path, damage):
    change, told = DAMAGE[damage]
    sums.save(tmp_path / "sums.tw")
    rewrite(tmp_path / "sums.tw", change)
    with pytest.raises(ModuleError, match=rf"is damaged.*{told}"):
        load_module(tmp_path / "sums.tw")


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda m: m["image"]["places"][3].__setitem__(1, 1 << 40), "leaves its block"),
        (lambda m: m["image"]["places"][3].__setitem__(1, -8), "size is negative"),
        (lambda m: m["image"]["steps"][0]["args"][0].__setitem__(2, 1 << 40), "leaves its block"),
        (lambda m: m["image"]["lifetimes"][2].update(size=[[32, "seq"]]), "leaves its block"),
        (lambda m: m["image"]["outputs"][1].update(shape=[[[1, "seq"], [-1]], 8]), "leaves its"),
        (lambda m: m["image"].update(workspaces=[[1 << 50, 0]]), "a block of"),
        (lambda m: m["image"].update(workspaces=[[[[1 << 61, "past"]], 0]]), "too large"),
    ],
)
def test_references_are_proved_where_a_module_runs(sums, tmp_path, change, told):
    sums.save(tmp_path / "sums.tw")
    rewrite(tmp_path / "sums.tw", change)
    module = load_module(tmp_path / "sums.tw")
    with pytest.raises(ModuleError, match=rf"past = 3, seq = 4.*{told}"):
        module.run(*symbolic.inputs(3, 4))


def test_manifests_with_anything_changed_are_refused_or_have_sites(sums, tmp_path):
    """Some value of a manifest is another one: that ends in an error of ours or in a module."""
    rng = random.Random(0)
    saved = tmp_path / "sums.tw"
    odd = (-1, 0, 1, 7, 1 << 40, 1 << 62, 1 << 70, 0.5, None, True, "seq", "past", "", [], {})
    odd += ([[1, "seq"]], [[-1, "past"]], [[1, "seq", "seq", "past"]], [[1, [[[1, "seq"]], 3]]])
    refused = placed = 0
    for _ in range(400):
        sums.save(saved)

        def change(manifest):
            at = manifest["image"]
            while True:
                keys = list(at) if isinstance(at, dict) else list(range(len(at)))
                if not keys:
                    return
                key = rng.choice(keys)
                if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.9:
                    at = at[key]
                    continue
                what = rng.random()
                if what < 0.1 and isinstance(at, list):
                    at.pop(key)
                elif what < 0.2 and isinstance(at, list):
                    at.insert(key, at[key])
                else:
                    at[key] = rng.choice(odd)
                return

        rewrite(saved, change)
        try:
            module = load_module(saved)
            for past, seq in POINTS:
                module._contexts.sites.named({"past": past, "seq": seq}).image  # noqa: B018
            placed += 1
        except ModuleError as e:
            assert "\n" not in str(e)
            refused += 1
    assert refused > 100 and placed > 10


@pytest.mark.parametrize("target", ["llvm -mcpu=native -num-cores=2", "reference"])
def test_a_batch_of_none(target, tmp_path):
    """Its range begins at 1 for kernels, and a run of none calls none of them."""
    ranges = {"batch": "0..3:2", "seq": "1..5", "past": "0..40:9"}
    net = from_onnx(symbolic_models.decoder(1, past=True), ranges)
    built = compile_(net, target, cache=False)
    built.save(tmp_path / "decoder.tw")
    for module in (built, load_module(tmp_path / "decoder.tw")):
        batch = next(s for s in module.symbols if s.name == "batch")
        assert (batch.low, batch.or_none) == (1, True)
        assert "batch 1 to 3, or 0" in module.summary()
        at = {s: {"batch": 0, "seq": 2, "past": 3}[s.name] for s in module.symbols}
        given = {v.name: np.ones(shape_at(v.shape, at), v.dtype) for v in module.image.inputs}
        logits, *presents = module.run(given)
        assert logits.shape[:2] == (0, 2) and {p.shape[::2] for p in presents} == {(0, 5)}
        call = module.bind(given)
        assert [o.shape for o in call()] == [logits.shape, *(p.shape for p in presents)]
        with pytest.raises(ShapeError, match="batch is 4"):
            module.run({n: np.ones((4, *a.shape[1:]), a.dtype) for n, a in given.items()})


def test_what_has_elements_without_a_symbol_is_refused():
    ranges = {"batch": "1..3:2", "seq": "0..5:1", "past": "0..40:9"}
    with pytest.raises(NetworkError, match="seq is 0 to 5"):
        from_onnx(symbolic_models.decoder(1, past=True), ranges)
