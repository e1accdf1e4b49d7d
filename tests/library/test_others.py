"""Linkers from wheels and callers of other frameworks, where their packages are installed."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
import tilework_runtime
from tests.library.conftest import run_without_tilework


def test_the_linker_of_a_wheel(mlp, image, tmp_path, monkeypatch):
    pytest.importorskip("ziglang")
    from tilework.kinds.cpu.library import build, linker

    monkeypatch.setattr(build, "find_linker", lambda p: linker.zig_linker(p.split()[1]))
    written = tw.write_library(mlp, tmp_path / "net.so")
    assert written.linker == "ziglang" and written.levels[0].checked
    code = """
    import os
    import numpy as np
    import tilework_runtime

    for again in range(2):  # forks with the library, and after it has gone
        with tilework_runtime.load(sys.argv[1]) as library:
            library.run(np.ones((2, 28, 28, 1), np.float32))
            for _ in range(2):
                if os.fork() == 0:
                    os._exit(0)
                print(os.wait()[1])
                library.close()
    """
    assert run_without_tilework(code, written.path).split() == ["0"] * 4
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
