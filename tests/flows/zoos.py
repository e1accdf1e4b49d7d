"""What tests of many networks share: runs without the timing of networks, and who listens."""

from __future__ import annotations

from flows.release_pipeline import ReleaseFailed
from flows.reporting import Reporter, reporting
from flows.zoo_pipeline import ZooFailed
from flows.zoo_settings import ZooNetwork, ZooSettings
from tasks.stages import PLAIN, Stages
from tests.hosts import HOST_ARCH

ONE, TWO = "llvm -mcpu=native -num-cores=1", "llvm -mcpu=native -num-cores=2"
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=1"
X86 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores=1"
ELSEWHERE = X86 if HOST_ARCH == "aarch64" else ARM
MLP = ZooNetwork(network="mlp", target=ONE, use=3)
BATCH = ZooNetwork(network="mlp", target=ONE, batch=2)
WIDE = ZooNetwork(network="mlp", target=TWO)
GONE = ZooNetwork(network="gone-18", target=ONE)


def stages(**changes):
    """The plain stages, without the seconds of timing networks."""
    return Stages(**{**vars(PLAIN), "compare": lambda compiled: None, **changes})


def never(*_):
    raise AssertionError("this is done already")


class Listener(Reporter):
    def __init__(self):
        self.rounds, self.notes, self.warnings = [], [], []

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)

    def progress(self, progress):
        self.rounds.append(progress)


def run(pipeline, settings, given=None):
    """The report, whether the run failed or not, and what was heard."""
    listener = Listener()
    try:
        with reporting(listener):
            return pipeline(settings, given or stages()), listener
    except (ZooFailed, ReleaseFailed) as error:
        assert error.outcome.failed == str(error)
        return error.outcome, listener


def settings(place, *networks, **more):
    """Settings of a short run whose records and modules are in a folder."""
    given = {"trials": 20, "effort": "draft", "folder": str(place / "modules"), **more}
    return ZooSettings(networks=networks, store=str(place / "records"), **given)
