"""Splits the suite by what it needs: the engine's tests run without Prefect, pandas and pyarrow.

``--engine-only`` runs every test outside ``PIPELINE`` with those packages made unimportable, as on
a machine that has only the engine's own requirements. ``--pipeline-only`` runs the others. Without
either option everything runs, with everything importable.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Several processes run tests at once: threads of NumPy and XGBoost would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")

TESTS = Path(__file__).parent
PIPELINE = ("cli", "flows", "storage", "tasks")
BLOCKED = ("prefect", "pandas", "pyarrow")
LONGEST = ("flows/test_outage.py", "tasks/test_examples.py", "flows/test_resume.py")
"""Begun last, they would leave all workers but one without work."""


class _Block(MetaPathFinder, Loader):
    """Refuses imports. Who only asks where such a module is, as PyTorch does, gets an answer."""

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if fullname.partition(".")[0] in BLOCKED else None

    def create_module(self, spec):
        raise ModuleNotFoundError(
            f"{spec.name} is blocked: the engine runs without it", name=spec.name
        )

    def exec_module(self, module):
        """Never called: there is no module."""


@pytest.fixture(autouse=True, scope="session")
def strict() -> Iterator[None]:
    """What would only make a network slower fails here: passes and foldings."""
    from tilework.graph import failures

    failures.strict = True
    yield
    failures.strict = False


@pytest.fixture(autouse=True, scope="module")
def keeping(request: pytest.FixtureRequest) -> Iterator[None]:
    """The pipeline's tests, and processes that they start, share kernels; the engine's make all.

    Many of these change how code is made, which no key says.
    """
    folder = request.path.relative_to(TESTS).parts[0]
    with pytest.MonkeyPatch.context() as patch:
        if folder not in PIPELINE:
            patch.setenv("TILEWORK_CACHE", "off")
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilework")
    group.addoption("--engine-only", action="store_true", help="the engine's tests, isolated")
    group.addoption("--update-golden", action="store_true", help="write golden files anew")
    group.addoption("--pipeline-only", action="store_true", help="storage, tasks, flows, CLI")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all is imported: what modules and tests hold is no garbage
    # What was measured on this machine must not decide what a test sees.
    os.environ["XDG_CACHE_HOME"] = folder = tempfile.mkdtemp(prefix="tilework-tests-")
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
    # Nor packages that this user has installed, nor those that are shipped for such a machine.
    os.environ["XDG_DATA_HOME"] = os.path.join(os.environ["XDG_CACHE_HOME"], "data")
    os.environ["XDG_CONFIG_HOME"] = os.path.join(os.environ["XDG_CACHE_HOME"], "config")
    os.environ["TILEWORK_NO_PACKAGES"] = "1"
    # Nor who measures on it: processes that tests start hold devices among themselves.
    os.environ["TMPDIR"] = os.environ["XDG_CACHE_HOME"]
    if config.getoption("--engine-only"):
        loaded = [name for name in BLOCKED if name in sys.modules]
        if loaded:
            raise pytest.UsageError(f"--engine-only: {', '.join(loaded)} already imported")
        sys.meta_path.insert(0, _Block())
    else:
        from tasks import device_lock

        device_lock.FOLDER = Path(os.environ["TMPDIR"]) / device_lock.FOLDER.name


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent != TESTS:
        return None
    pipeline = collection_path.name in PIPELINE
    if config.getoption("--engine-only") and pipeline:
        return True
    if config.getoption("--pipeline-only") and not pipeline:
        return True
    return None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is skipped where NVRTC or PyTorch is not there; what takes longest comes first."""
    longest = [TESTS / name for name in LONGEST]
    items.sort(key=lambda item: not (_shares_server(item.path) or item.path in longest))
    for item in items:
        if "needs_nvrtc" in getattr(item, "fixturenames", ()) or _skips_without_torch(item.path):
            item.add_marker(pytest.mark.extras)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:  # which a process that only hands out tests enters, too
    """Look for garbage seldom, and never among what is there by now: a fifteenth of the time."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """What lives until here is no garbage: pytest looks for some a dozen times at its end."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # without xdist there is none
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of ``--dist loadfile``: one worker has all tests that share a Prefect server.

    Starting it takes ten seconds, and each worker would.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "server" if _shares_server(config.rootpath / file) else file

    return Scheduling(config, log)


@cache
def _shares_server(path: Path) -> bool:
    return re.search(r"\b(prefect|bare)_server\b", path.read_text()) is not None


@cache
def _skips_without_torch(path: Path) -> bool:
    return 'pytest.importorskip("torch")' in path.read_text()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many of the `onnx` package's own tests passed."""
    counts: dict[tuple[str, str], int] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            kinds = r"backend/test_standard\.py::test_(onnx|excluded|known_failure)\["
            found = re.search(kinds, report.nodeid)
            if found:
                key = (outcome, found[1])
                counts[key] = counts.get(key, 0) + 1
    if counts:
        terminalreporter.write_line(
            f"ONNX backend tests: {counts.get(('passed', 'onnx'), 0)} passed, "
            f"{counts.get(('failed', 'onnx'), 0)} failed, "
            f"{counts.get(('passed', 'known_failure'), 0)} known to fail; "
            f"{counts.get(('passed', 'excluded'), 0)} excluded, each refused with a clear error"
        )
