"""The distribution tilework-runtime: pure Python, and all that running a library takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import tilework
import tilework_runtime
from tests.library.conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    left = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "runtime", folder / "runtime", ignore=left)
    words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    done = subprocess.run(
        [*words, "-w", folder, folder / "runtime"], capture_output=True, text=True, timeout=600
    )
    if done.returncode and "No module named pip" in done.stderr:
        pytest.skip("there is no pip")
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_versions_are_one():
    assert tilework_runtime.__version__ == tilework.__version__


def test_the_wheel_is_pure_python(wheel):
    assert wheel.name == f"tilework_runtime-{tilework.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = (n for n in names if n.endswith("METADATA"))
        requires = [line for line in file.read(metadata).decode().splitlines()
                    if line.startswith("Requires-Dist")]  # fmt: skip
    assert requires == ["Requires-Dist: numpy>=2.0"]
    code = {n for n in names if n.endswith(".py")}
    assert code == {
        f"tilework_runtime/{p.name}" for p in (ROOT / "runtime" / "tilework_runtime").glob("*.py")
    }


def test_a_network_runs_with_the_wheel_and_numpy_alone(wheel, mlp, mlp_library, image, tmp_path):
    np.save(tmp_path / "in.npy", image)
    # -S: no site-packages, so nothing can be imported but what is named here
    numpy_alone = tmp_path / "packages"
    numpy_alone.mkdir()
    for name in ("numpy", "numpy.libs"):
        found = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), name)
        if os.path.exists(found):
            (numpy_alone / name).symlink_to(found)
    code = """
import sys
import numpy as np
import tilework_runtime
network = tilework_runtime.load(sys.argv[1], threads=2)
np.save(sys.argv[3], network.run(np.load(sys.argv[2]))[0])
try:
    import tilework
except ModuleNotFoundError:
    print("no tilework")
"""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code, mlp_library.path, tmp_path / "in.npy",
         tmp_path / "out.npy"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{wheel}{os.pathsep}{numpy_alone}"},
    )  # fmt: skip
    assert done.stdout.strip() == "no tilework", done.stderr
    assert np.load(tmp_path / "out.npy").tobytes() == mlp.run(image)[0].tobytes()
