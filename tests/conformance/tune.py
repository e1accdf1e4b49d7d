"""``python -m tests.conformance.tune TARGET FOLDER TRIALS SETTINGS``: a run that may be killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conformance.log import FileLog
from tests.conformance.network import network
from tilework import Target, TuningOptions, extract_tasks
from tilework.measure import Measurer
from tilework.search import PolicyParams
from tilework.search.tune import tune


def options(trials: int) -> TuningOptions:
    """A few candidates a round, proposed without much thought."""
    policy = PolicyParams(population=48, generations=1, neighbours=8)
    return TuningOptions(
        num_measure_trials=trials, num_measures_per_round=3, finalists=2, policy=policy
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(text: str, folder: str, trials: str, settings: str) -> None:
    target = Target(text)
    tasks, weights = extract_tasks(network(), target)
    with Measurer(target, build_processes=1, **json.loads(settings)) as measurer:
        _say("workers " + " ".join(map(str, measurer.pids)))
        tune(
            tasks, weights, options(int(trials)), FileLog(Path(folder)), measurer,
            run_id="run", network="conformance",
            callbacks=[lambda session, finished: _say("round")],
        )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
