"""Sessions that continue a past in place: right after every token, and no copy of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
import pytest

from tests.graph import symbolic_models
from tests.graph.test_caches_in_place import scattered
from tilework.errors import ModuleError, NetworkError, ShapeError, TileworkError
from tilework.runtime.sites import Sites
from tilework.session import Session

ort.set_default_logger_severity(4)
RANGES = {"batch": "1..2:1", "seq": "1..16:1,8", "past": "0..279:31,127"}
MASKED = ("input_ids", "mask")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TILEWORK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patched.setenv("TILEWORK_NO_PACKAGES", "1")
        yield


@pytest.fixture(scope="module")
def model():
    return symbolic_models.decoder(past=True).SerializeToString()


@pytest.fixture(scope="module")
def session(model, folder):
    return Session(model, shapes=RANGES, in_place=True)


def step(ids, past):
    """What a run is fed with, but for the past of a length."""
    return {"input_ids": ids, "mask": np.ones((len(ids), past + ids.shape[1]), np.int64)}


def prompt(batch=1, length=11, seed=0):
    return np.random.default_rng(seed).integers(0, symbolic_models.WORDS, (batch, length))


def likeliest(logits):
    return logits[:, -1:].argmax(-1)


def nothing(batch=1):
    empty = np.zeros((batch, symbolic_models.HEADS, 0, symbolic_models.HEAD), np.float32)
    return {f"past_{i}": empty for i in range(4)}


@pytest.mark.parametrize("batch", [1, 2])
def test_256_tokens_are_those_of_another_engine_and_of_copies(session, model, batch):
    """Logits of each step, and keys and values at the end; equal to the bit to the copying way."""
    theirs = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    copying = Session(model, shapes=RANGES)
    past, kept, own = session.new_past(), nothing(batch), nothing(batch)
    ids = prompt(batch)
    for _ in range(256):
        feeds = step(ids, past.length)
        logits, *views = session.run(None, feeds, past=past)
        wanted, *presents = theirs.run(None, {**feeds, **kept})
        copied, *copies = copying.run(None, {**feeds, **own})
        np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)
        assert np.array_equal(logits, copied)
        kept, own = (dict(zip(kept, found, strict=True)) for found in (presents, copies))
        ids = likeliest(logits)
    assert past.length == 11 + 255
    for name, view, copy in zip(kept, views, copies, strict=True):
        assert np.shares_memory(view, past.arrays()[name])
        assert np.array_equal(view, copy)
        np.testing.assert_allclose(view, kept[name], rtol=1e-4, atol=1e-4)


def test_a_course_that_changes(session):
    """Sites made ahead are those of other steps, and of a past that goes back, no more."""
    past, ids = session.new_past(), prompt(length=60)[0]
    whole, _, _, _, _ = session.run(None, step(ids[None, :16], 0), past=session.new_past())
    for count in (1, 1, 1, 1, 3, 3, 3, 1, 1, 1):
        at = past.length
        (logits,) = session.run(["logits"], step(ids[None, at : at + count], at), past=past)
        np.testing.assert_allclose(logits, whole[:, at : at + count], rtol=1e-4, atol=1e-4)
    past.rewind(6)
    keys, logits = session.run(["present_0", "logits"], step(ids[None, 6:7], 6), past=past)
    np.testing.assert_allclose(logits, whole[:, 6:7], rtol=1e-4, atol=1e-4)
    assert keys.shape[2] == past.length == 7


def test_runs_are_made_ready(session, monkeypatch):
    """Most of Python is done for many tokens at once; where it is not, results are the same."""
    slow, after = [], Sites.after
    monkeypatch.setattr(Sites, "after", lambda *given: slow.append(1) or after(*given))
    past, ids = session.new_past(), prompt(length=90)[0]
    fed = [step(ids[None, at : at + 1], at) for at in range(90)]
    kept = [session.run(["logits"], feeds, past=past)[0] for feeds in fed]
    assert len(slow) < 45
    for n in (9, 16):
        (logits,) = session.run(["logits"], step(ids[None, :n], 0), past=session.new_past())
        np.testing.assert_allclose(np.concatenate(kept[:n], 1), logits, rtol=1e-4, atol=1e-4)
    past.rewind(40)
    again = session.new_past(past.arrays())
    for at in range(40, 90):
        feeds, one = dict(fed[at]), past if at % 2 else again
        if at == 60:
            with pytest.raises(ModuleError, match=r"input_ids: expected tensor\(int64\)"):
                session.run(None, {**feeds, "input_ids": np.zeros((1, 1), np.float32)}, past=one)
            with pytest.raises(ShapeError, match="mask"):
                session.run(None, {**feeds, "mask": np.ones((1, 9), np.int64)}, past=one)
        if at % 7 == 0:
            feeds["input_ids"] = feeds["input_ids"].tolist()
        for other in (past, again):
            (logits,) = session.run(["logits"], feeds, past=other)
            assert np.array_equal(logits, kept[at])


def test_runs_made_ready_in_threads(session):
    """Each has a context that another run may have when it comes."""
    ids = prompt(length=50)[0]

    def work(count):
        past, found = session.new_past(), []
        for at in range(50):
            found += session.run(["logits"], step(ids[None, at : at + 1], at), past=past)
            if at % count == 0:
                session.run(["logits"], step(ids[None, :9], 0), past=session.new_past())
        return np.concatenate(found, 1)

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(work, (100, 3, 5, 100, 1, 7))
    assert all(np.array_equal(first, other) for other in others)


def test_nothing_that_is_called_copies_the_past(session, model):
    """The copying module has a call for each key and value; here all have their readers alone."""
    image, copying = session.module.image, Session(model, shapes=RANGES).module.image
    assert sum(s.name == "concat" for s in copying.steps) == 4
    assert len(image.steps) <= len(copying.steps) - 4
    rooms = [
        (s.name, r.space) for s in image.steps for r in s.args if r.at in image.ends.continued
    ]
    read = sorted(name for name, space in rooms if space == "io")
    assert read == ["einsum", "einsum", "einsum_multiply_add", "einsum_multiply_add"]
    assert sum(space == "behind" for _, space in rooms) == 4


def test_the_buffers_stay_where_they_are(session):
    past = session.new_past()
    session.run(None, step(prompt(), 0), past=past)
    places = {name: a.ctypes.data for name, a in past.arrays().items()}
    assert len(places) == 4
    for _ in range(5):
        session.run(None, step(prompt(length=1), past.length), past=past)
    assert places == {name: a.ctypes.data for name, a in past.arrays().items()}


def test_io_binding(session):
    past, other = session.new_past(), session.new_past()
    binding = session.io_binding()
    binding.bind_past(past)
    binding.bind_output("logits")
    ids = prompt()
    for _ in range(4):
        for name, array in step(ids, past.length).items():
            binding.bind_cpu_input(name, array)
        (wanted,) = session.run(["logits"], step(ids, other.length), past=other)
        session.run_with_iobinding(binding)
        (logits,) = binding.copy_outputs_to_cpu()
        assert np.array_equal(logits, wanted) and past.length == other.length
        ids = likeliest(logits)


def test_plain_runs_take_and_return_arrays(session):
    ids = prompt()
    past = session.new_past()
    logits, *_ = session.run(None, step(ids, 0), past=past)
    plain, *presents = session.run(None, {**step(ids, 0), **nothing()})
    assert np.array_equal(logits, plain)
    assert all(p.flags.c_contiguous for p in presents)
    again = session.new_past(dict(zip(nothing(), presents, strict=True)))
    ids = likeliest(logits)
    ways = [session.run(["logits"], step(ids, 11), past=p)[0] for p in (past, again)]
    assert np.array_equal(*ways)


def test_back_to_an_earlier_position_and_another_way(session):
    past = session.new_past()
    session.run(None, step(prompt(), 0), past=past)
    fork = session.new_past(past.arrays())
    first = session.run(["logits"], step(prompt(length=3, seed=1), 11), past=past)[0]
    past.rewind(11)
    assert past.length == fork.length == 11
    for other in (past, fork):
        again = session.run(["logits"], step(prompt(length=3, seed=1), 11), past=other)[0]
        assert np.array_equal(again, first)
    past.rewind(0)
    with pytest.raises(ModuleError, match="a past of 0 positions cannot go back to 5"):
        past.rewind(5)


def test_a_full_past(session):
    past = session.new_past()
    while past.length <= 279:
        session.run(None, step(prompt(length=16), past.length), past=past)
    told = "the past is full: it has 288 positions, and past may be 279 at the most"
    with pytest.raises(ShapeError, match=told):
        session.run(None, step(prompt(length=1), past.length), past=past)
    assert past.length == 288


def test_a_past_is_of_its_module_and_batch(session):
    one = symbolic_models.decoder(1, past=True).SerializeToString()
    small = Session(one, shapes=RANGES, in_place=True)
    with pytest.raises(ModuleError, match="of use to it alone"):
        small.run(None, step(prompt(), 0), past=session.new_past())
    past = session.new_past()
    session.run(None, step(prompt(), 0), past=past)
    with pytest.raises(ModuleError, match=r"past_0 was begun with room for \[1, 4, 295, 8\]"):
        session.run(None, step(prompt(2), 11), past=past)
    assert past.length == 11


def test_two_runs_at_a_time(session):
    past = session.new_past()
    with past.turn(session.module.image.rooms), ThreadPoolExecutor(1) as pool:
        wrong = pool.submit(session.run, None, step(prompt(), 0), past=past).exception()
    assert isinstance(wrong, ModuleError) and "share a past at the same time" in str(wrong)


def test_arrays_that_do_not_fit(session):
    good = {n: np.zeros((1, 4, 5, 8), np.float32) for n in nothing()}
    for wrong, told in (
        ({n: a for n, a in good.items() if n != "past_2"}, "begins with past_0, past_1, past_2"),
        ({**good, "past_1": good["past_1"][:, :, :4]}, "input past_1: expected float32"),
        ({**good, "past_3": good["past_3"].astype(np.float64)}, "input past_3: expected float32"),
        ({**good, "past_0": good["past_0"][0]}, "input past_0: expected float32"),
        ({n: np.zeros((1, 4, 300, 8), np.float32) for n in good}, "300 positions, room for 295"),
    ):
        with pytest.raises(ModuleError, match=told):
            session.new_past(wrong)


def test_what_is_fed_beside_a_past(session):
    with pytest.raises(ModuleError, match=r"takes the inputs input_ids .*, mask"):
        session.run(None, {**step(prompt(), 0), **nothing()}, past=session.new_past())


def test_sessions_without(model):
    with pytest.raises(TileworkError, match="in_place=True takes ranges"):
        Session(model, in_place=True)
    with pytest.raises(ModuleError, match="make it with in_place=True"):
        Session(model, shapes=RANGES).new_past()
    encoder = symbolic_models.encoder().SerializeToString()
    with pytest.raises(NetworkError, match="no output that continues an input"):
        Session(encoder, shapes={"batch": "1..2", "seq": "1..9"}, in_place=True)


@pytest.mark.parametrize("shapes", [{"s": "1..4"}, {}])
def test_a_buffer_bound_as_input_and_output(shapes):
    """It is written in place; one bound elsewhere gets a copy first, and plain runs make one."""
    model = scattered(False, "linear", "s" if shapes else 1)
    session = Session(model, shapes=shapes or None, in_place=True)
    theirs = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng, buffer = np.random.default_rng(0), np.zeros((2, 4, 16, 8), np.float32)
    binding = session.io_binding()
    other = np.empty_like(buffer)
    for at in range(3):
        feeds = {x: rng.standard_normal((2, 4, 1, 8), np.float32) for x in "qkv"}
        seen = np.zeros((1, 16), np.float32)
        feeds |= {"past_v": buffer * 2, "at": np.array([at, 2 * at]), "seen": seen}
        wanted = theirs.run(None, {**feeds, "past_k": buffer})
        plain = session.run(None, {**feeds, "past_k": buffer})
        for name, array in {**feeds, "past_k": buffer}.items():
            binding.bind_cpu_input(name, array)
        for into in (other, buffer):
            binding.bind_cpu_output("present_k", into)
            binding.bind_output("y")
            session.run_with_iobinding(binding)
            kept, y = binding.copy_outputs_to_cpu()
            assert kept is into and np.array_equal(kept, wanted[1])
            assert np.array_equal(y, plain[0]) and np.array_equal(plain[1], wanted[1])
            np.testing.assert_allclose(y, wanted[0], rtol=1e-5, atol=1e-5)
