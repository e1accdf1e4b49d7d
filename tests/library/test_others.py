"""Linkers from wheels and callers of other frameworks, where their packages are installed."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
import tilework_runtime


def test_the_linker_of_a_wheel(mlp, image, tmp_path, monkeypatch):
    pytest.importorskip("ziglang")
    from tilework.kinds.cpu.library import build, linker

    monkeypatch.setattr(build, "find_linker", lambda p: linker.zig_linker(p.split()[1]))
    written = tw.write_library(mlp, tmp_path / "net.so")
    assert written.linker == "ziglang" and written.levels[0].checked
    found = tilework_runtime.load(written.path).run(image)[0]
    assert found.tobytes() == mlp.run(image)[0].tobytes()


def test_tvm_ffi_calls_a_library(mlp, mlp_library, image):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    found = np.zeros(mlp.outputs[0].shape, "float32")
    x, y = tvm_ffi.from_dlpack(image), tvm_ffi.from_dlpack(found)
    module = tvm_ffi.load_module(str(mlp_library.path))
    module.run(x, y)
    assert found.tobytes() == mlp.run(image)[0].tobytes()
    for wrong, told in (((x,), "takes 1 inputs and then 1 outputs"), ((y, x), "another shape"),
                        ((1, 2), "argument 0 is no tensor")):  # fmt: skip
        with pytest.raises(ValueError, match=told):
            module.run(*wrong)
