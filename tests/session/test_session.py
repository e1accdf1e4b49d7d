"""`tilework.Session` beside ``onnxruntime.InferenceSession``: the same calls, the same results."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
import tilework.session as drop_in
from tests.hosts import x86
from tilework.errors import ModuleError, NetworkError, TileworkError
from tilework.record import MemoryHistory
from tilework.session import ModuleCache, Session, SessionOptions, later

MODELS = sorted((Path(__file__).parents[1] / "data" / "models").glob("*.onnx"))

COMPILER = ("compiler", "graph", "lower", "space", "te", "ops", "model", "travel", "record")

ort.set_default_logger_severity(4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Neither the user's cache nor packages, whose choice takes long, have a part in this."""
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWORK_NO_PACKAGES", "1")
    return tmp_path / "cache"


def feeds_of(session, batch=2):
    r = np.random.default_rng(0)
    out = {}
    for i in session.get_inputs():
        shape = [n if isinstance(n, int) else batch for n in i.shape]
        if i.type == "tensor(int64)":
            out[i.name] = r.integers(0, 10, shape)
        elif i.type == "tensor(bool)":
            out[i.name] = r.integers(0, 2, shape).astype(bool)
        else:
            out[i.name] = r.standard_normal(shape).astype(np.float32)
    return out


def dense(batch="n", dtype=TensorProto.FLOAT, bias=0.5):
    """``y = relu(x @ w + b)`` with a symbolic batch, and ``z = -y``."""
    w = numpy_helper.from_array(np.eye(3, 4, dtype=np.float32) + 0.25, "w")
    b = numpy_helper.from_array(np.full(4, bias, np.float32), "b")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("Neg", ["y"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", dtype, [batch, 3])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, 4]) for n in "yz"],
        [w, b],
    )
    model = helper.make_model(
        graph, producer_name="tests", opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    return model


@pytest.mark.parametrize("path", MODELS, ids=[p.stem for p in MODELS])
def test_exported_models_as_in_onnx_runtime(path):
    options = SessionOptions()
    options.intra_op_num_threads = 1
    theirs, ours = ort.InferenceSession(path), Session(path, options)
    for a, b in zip(
        [*theirs.get_inputs(), *theirs.get_outputs()],
        [*ours.get_inputs(), *ours.get_outputs()],
        strict=True,
    ):
        assert (a.name, a.type) == (b.name, b.type)
        if a.shape and b.shape:  # each may know what the other does not
            assert a.shape == b.shape
    assert ours.get_modelmeta().producer_name == theirs.get_modelmeta().producer_name
    assert ours.get_modelmeta().graph_name == theirs.get_modelmeta().graph_name
    feeds = feeds_of(theirs)
    names = [o.name for o in theirs.get_outputs()][::-1]
    for want, got in (
        (theirs.run(None, feeds), ours.run(None, feeds)),
        (theirs.run(names, feeds), ours.run(names, feeds)),
    ):
        assert len(want) == len(got)
        for a, b in zip(want, got, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert np.abs(a - b).max() <= 2e-5 * np.abs(a).max()


def test_a_program_for_onnx_runtime_runs_as_it_is(tmp_path):
    onnx.save(dense(), tmp_path / "model.onnx")
    x = np.ones((2, 3), np.float32)
    results = []
    for runtime in (ort, drop_in):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 2  # one is too few for its run_async
        options.inter_op_num_threads = 1
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = runtime.InferenceSession(
            str(tmp_path / "model.onnx"), sess_options=options, providers=["CPUExecutionProvider"]
        )
        assert "CPUExecutionProvider" in session.get_providers()
        name = session.get_inputs()[0].name
        assert session.get_inputs()[0].shape == ["n", 3]
        (z,) = session.run(["z"], {name: x}, runtime.RunOptions())
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        done = threading.Event()
        answers = []

        def callback(outputs, data, error, answers=answers, done=done):
            answers.append((outputs, data, error))
            done.set()

        session.run_async(None, {"x": x}, callback, "mine")
        assert done.wait(60)
        (outputs, data, error), *_ = answers
        assert data == "mine" and not error
        results.append([z, *binding.copy_outputs_to_cpu(), *outputs])
    for a, b in zip(*results, strict=True):
        assert np.allclose(a, b, rtol=1e-6)


def test_options_of_onnx_runtime_itself_are_read(tmp_path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    assert "-num-cores=1" in Session(dense(2), options).module.target


def test_models_as_bytes_and_messages():
    model = dense(2)
    x = np.ones((2, 3), np.float32)
    for given in (model, model.SerializeToString(), bytearray(model.SerializeToString())):
        assert np.array_equal(
            Session(given).run(["y"], {"x": x})[0], Session(model).run(["y"], {"x": x})[0]
        )


def test_what_was_compiled_stays(monkeypatch):
    session = Session(dense(), cache=False)
    compiled = []
    forms = session._forms
    monkeypatch.setattr(
        forms, "_compiled", lambda *a, f=forms._compiled: compiled.append(1) or f(*a)
    )
    for batch in (1, 2, 1):
        (y, z) = session.run(None, {"x": np.ones((batch, 3), np.float32)})
        assert y.shape == z.shape == (batch, 4)
    assert len(compiled) == 2
    with pytest.raises(ModuleError, match="module_for"):
        session.module  # noqa: B018
    (n, three) = session.module_for({"x": np.ones((2, 3), np.float32)}).inputs["x"].shape
    assert str(n) == "n" and three == 3


def test_symbolic_extents_are_fixed_by_options():
    options = SessionOptions()
    options.add_free_dimension_override_by_name("n", 5)
    session = Session(dense(), options)
    assert session.module.inputs["x"].shape == (5, 3)
    options.add_free_dimension_override_by_name("k", 5)
    with pytest.raises(TileworkError, match="no symbolic extent k"):
        Session(dense(), options)


def test_values_that_decide_shapes(folder):
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "reshape",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(6, dtype=np.float32)
    for _ in range(2):
        session = Session(model)
        for shape in ((2, 3), (3, 2), (2, 3)):
            (y,) = session.run(None, {"x": x, "s": np.array(shape)})
            assert np.array_equal(y, x.reshape(shape))


def test_lists_are_of_the_type_of_their_input():
    session = Session(dense(), cache=False)
    other = ort.InferenceSession(dense().SerializeToString())
    x = {"x": [[1, 2.5, 3]]}
    assert np.allclose(session.run(None, x)[0], other.run(None, x)[0])


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "takes the inputs x tensor(float)[n, 3]; missing x"),
        ({"x": np.ones((2, 3), np.float32), "q": 1}, "unknown q"),
        ({"x": np.ones((2, 3))}, "input x: expected tensor(float), got an array of float64"),
        ({"x": np.ones((2, 5), np.float32)}, "input x: expected the shape [n, 3], got [2, 5]"),
        ({"x": np.ones(3, np.float32)}, "input x: expected the shape [n, 3], got [3]"),
        ([np.ones((2, 3), np.float32)], "given by name"),
        ({"x": [[1.0], [1.0, 2.0]]}, "no array can be made of it"),
    ],
)
def test_wrong_inputs(feeds, message):
    with pytest.raises(ModuleError) as e:
        Session(dense(), cache=False).run(None, feeds)
    assert message in str(e.value) and "\n" not in str(e.value)


def test_wrong_requests(tmp_path):
    with pytest.raises(NetworkError, match="does not exist"):
        Session(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(NetworkError, match="not a valid ONNX file"):
        Session(tmp_path / "bad.onnx")
    with pytest.raises(NetworkError, match="are no ONNX model"):
        Session(b"nothing of the kind")
    with pytest.raises(TileworkError, match="takes the path or the bytes"):
        Session(3)
    with pytest.raises(ModuleError, match="no output q; its outputs: y, z"):
        Session(dense(2), cache=False).run(["q"], {"x": np.ones((2, 3), np.float32)})
    options = SessionOptions()
    with pytest.raises(AttributeError, match="no option 'threads'"):
        options.threads = 3
    with pytest.raises(TileworkError, match="register_custom_ops_library is not supported"):
        options.register_custom_ops_library("x.so")
    options.enable_profiling = True
    with pytest.raises(TileworkError, match=r"session.module.profile\(\)"):
        Session(dense(2), options)
    options = SessionOptions()
    options.intra_op_num_threads = -1
    with pytest.raises(TileworkError, match="must be 0"):
        Session(dense(2), options)
    with pytest.warns(UserWarning, match="does not run on CUDAExecutionProvider"):
        Session(dense(2), providers=[("CUDAExecutionProvider", {}), "CPUExecutionProvider"])
    with pytest.raises(TileworkError, match="record history"):
        Session(dense(2), store=3)


def test_bound_outputs():
    session = Session(dense(2), cache=False)
    binding, into = session.io_binding(), np.empty((2, 4), np.float32)
    binding.bind_cpu_input("x", np.ones((2, 3), np.float32))
    binding.bind_cpu_output("z", into)
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0] is into
    assert np.array_equal(into, session.run(["z"], {"x": np.ones((2, 3), np.float32)})[0])
    for wrong in (lambda: binding.bind_cpu_input("q", into), lambda: binding.bind_output("q")):
        with pytest.raises(ModuleError, match="the model has no"):
            wrong()
    binding.bind_cpu_output("y", np.empty(4, np.float32))
    with pytest.raises(ModuleError, match=r"output y: expected an array of float32\[2, 4\]"):
        session.run_with_iobinding(binding)


# --- the cache -------------------------------------------------------------------------------


def entries(folder):
    later.finish()
    return {p.name for p in folder.glob("*.entry")}


def test_the_second_session_imports_no_compiler(tmp_path, folder):
    onnx.save(dense(2), tmp_path / "model.onnx")
    (want,) = Session(tmp_path / "model.onnx").run(["y"], {"x": np.ones((2, 3), np.float32)})
    code = f"""
        import sys
        for name in {COMPILER!r}:
            sys.modules["tilework." + name] = None
        for name in ("onnx", "pandas", "pyarrow", "storage", "xgboost"):
            sys.modules[name] = None
        import numpy as np
        import tilework as tw

        session = tw.Session({str(tmp_path / "model.onnx")!r})
        (y,) = session.run(["y"], {{"x": np.ones((2, 3), np.float32)}})
        print(session.get_inputs(), y.sum())
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{want.sum()}\n")


def test_what_a_form_follows_from(tmp_path, folder):
    path = tmp_path / "model.onnx"
    x = {"x": np.ones((2, 3), np.float32)}
    onnx.save(dense(2), path)
    (first,) = Session(path).run(["y"], x)
    assert len(entries(folder)) == 1
    assert np.array_equal(Session(path).run(["y"], x)[0], first)
    assert len(entries(folder)) == 1
    onnx.save(dense(2, bias=1.5), path)  # of the same size, at once
    assert np.array_equal(Session(path).run(["y"], x)[0], first + 1)
    assert len(entries(folder)) == 2
    others = [{"target": x86("x86-64", 1)}, {"target": "reference"}]
    if "avx512bf16" in tw.Target("llvm").features:
        others.append({"precision": "bf16"})
    for count, other in enumerate(others, 3):
        Session(path, **other)
        assert len(entries(folder)) == count
    Session(path, cache=False)
    assert len(entries(folder)) == count


def test_weights_in_another_file_count(tmp_path, folder):
    path = tmp_path / "model.onnx"
    x = {"x": np.ones((2, 3), np.float32)}
    onnx.save(dense(2), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (first,) = Session(path).run(["y"], x)
    weights = np.fromfile(tmp_path / "w.bin", np.float32)
    (2 * weights).tofile(tmp_path / "w.bin")
    assert np.allclose(Session(path).run(["y"], x)[0], 2 * first)


def test_records_that_decide(folder, monkeypatch):
    """A form stays as long as what is best of its tasks does."""
    model = dense(2)
    history = MemoryHistory()
    Session(model, store=history)
    Session(model, store=MemoryHistory())
    assert len(entries(folder)) == 1
    asked = []
    monkeypatch.setattr(history, "hints", lambda *a: asked.append(a) or [])
    monkeypatch.setattr("tilework.session.records.RecordSource.deciding", lambda *a: "others")
    Session(model, store=history)
    assert len(entries(folder)) == 2


def test_damaged_notes_and_entries_are_misses(folder):
    model, x = dense(2), {"x": np.ones((2, 3), np.float32)}
    (want,) = Session(model).run(["y"], x)
    later.finish()
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        for content in (b"", b"{}", path.read_bytes()[:-3], b"\0" * 100):
            path.write_bytes(content)
            assert np.array_equal(Session(model).run(["y"], x)[0], want)
            later.finish()
    cache = ModuleCache(folder)
    for path in folder.glob("*.note"):  # whole, and of another form
        cache.put_note(path.stem, {"module": 3, "inputs": [1], "stamp": None})
        assert np.array_equal(Session(model).run(["y"], x)[0], want)


def test_eight_processes_at_once(tmp_path, folder):
    onnx.save(dense(2), tmp_path / "model.onnx")
    code = f"""
        import numpy as np
        import tilework as tw

        for _ in range(3):
            session = tw.Session({str(tmp_path / "model.onnx")!r})
            print(session.run(["y"], {{"x": np.ones((2, 3), np.float32)}})[0].sum())
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    all_ = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    said = [one.communicate(timeout=600) for one in all_]
    assert {one.returncode for one in all_} == {0}, said
    assert len({out for out, _ in said}) == 1
    assert len(entries(folder)) == 1


def test_threads_run_one_session():
    session = Session(dense(), cache=False)
    wrong = []

    def work(batch):
        for _ in range(20):
            (y,) = session.run(["y"], {"x": np.full((batch, 3), batch, np.float32)})
            if y.shape != (batch, 4) or not np.allclose(y[0], y[-1]):
                wrong.append(batch)

    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_name_at_the_top():
    assert tw.Session is Session


def cached(past):
    """Keys of the past and of now, and products with them."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["keys"], axis=1),
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["keys", "t"], ["y"]),
        helper.make_node("Relu", ["past"], ["kept"]),
    ]
    inputs = [info("past", 1, [1, past, 4]), info("x", 1, [1, 2, 4])]
    outputs = [info(n, 1, [1, None, 4 if n != "y" else 2]) for n in ("keys", "y", "kept")]
    graph = helper.make_graph(nodes, "cached", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("past", ["past", 0], ids=["symbol", "declared"])
def test_a_past_may_be_empty(past):
    model = cached(past).SerializeToString()
    session, reference = Session(model), ort.InferenceSession(model)
    again = Session(model)
    for length in (0, 3) if past else (0,):
        r = np.random.default_rng(length)
        feeds = {
            "past": r.standard_normal((1, length, 4)).astype(np.float32),
            "x": r.standard_normal((1, 2, 4)).astype(np.float32),
        }
        for one in (session, again):
            for a, b in zip(one.run(None, feeds), reference.run(None, feeds), strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        bound = session.io_binding()
        for name, array in feeds.items():
            bound.bind_cpu_input(name, array)
        session.run_with_iobinding(bound)
        assert [o.shape for o in bound.copy_outputs_to_cpu()] == [
            (1, length + 2, 4), (1, length + 2, 2), (1, length, 4),
        ]  # fmt: skip
