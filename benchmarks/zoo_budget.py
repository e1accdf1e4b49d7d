"""One budget for many networks, spent where it saves most, against the same budget split evenly.

    python benchmarks/zoo_budget.py squeezenet_v1.1=8 mobilenet=1 mlp=1 --trials 384 --seeds 2

Both arms measure as many candidates with the same search (`tilework tune-zoo`): together, or each
network alone with its equal share. Judged is the mean latency of a call by use. The networks of
both arms are compiled and timed in turns, so that what else the machine does hits both alike. The
device is not locked: nothing else should measure on it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tilework as tw
from flows.zoo_pipeline import zoo_pipeline
from flows.zoo_settings import ZooNetwork, ZooSettings, parse_network
from tasks import device_lock
from tasks.engines import random_inputs, time_engines
from tasks.stages import PLAIN, Stages
from tasks.stores import open_store
from tilework.runtime.samples import paired_ratio

SEARCH_ONLY = Stages(**{**vars(PLAIN), "compare": lambda compiled: None})


def tuned(networks: Sequence[ZooNetwork], trials: int, seed: int, store: Path) -> str:
    """Tune networks under one budget; the store."""
    settings = ZooSettings(
        networks=tuple(networks),
        trials=trials,
        effort="draft",
        seed=seed,
        store=str(store),
        folder="",
    )
    report = zoo_pipeline(settings, SEARCH_ONLY)
    assert report.progress is not None and report.progress.trials >= trials - len(networks)
    return settings.store


def trials_of(store: str, network: ZooNetwork) -> int:
    """Candidates that were measured of the tasks of a network."""
    tasks, _ = tw.extract_tasks(tw.zoo.outline(network.network), network.resolved_target())
    found = open_store(store)
    records = [r for t in tasks for r in found.of(t.workload_key, str(t.target))]
    return sum(record.purpose == "search" for record in records)


def compare(
    networks: Sequence[ZooNetwork], trials: int, seed: int, seconds: float
) -> list[dict[str, Any]]:
    """One row per network: trials and median milliseconds of both arms, and of no tuning."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        together = tuned(networks, trials, seed, Path(folder) / "zoo")
        for network in networks:
            share = trials // len(networks)
            alone = tuned([network], share, seed, Path(folder) / network.network)
            net = tw.zoo.get(network.network)
            target = network.resolved_target()
            engines = {
                "untuned": tw.compile(net, target),
                "even": tw.compile(net, target, records=open_store(alone)),
                "zoo": tw.compile(net, target, records=open_store(together)),
            }
            samples = time_engines(engines, random_inputs(net), seconds)
            rows.append(
                {
                    "network": network.network,
                    "use": network.use,
                    "seed": seed,
                    "trials even": trials_of(alone, network),
                    "trials zoo": trials_of(together, network),
                    **{f"{name} ms": 1e3 * found.median for name, found in samples.items()},
                    "zoo / even": paired_ratio(samples["zoo"], samples["even"]),
                }
            )
            print(rows[-1], flush=True)
    return rows


def means_text(rows: Sequence[dict[str, Any]]) -> str:
    """Mean latency of a call by use, of each arm; ratios are those of pairs of samples."""
    total = sum(row["use"] for row in rows)
    untuned = sum(row["use"] * row["untuned ms"] for row in rows) / total
    even = sum(row["use"] * row["even ms"] for row in rows) / total
    zoo = sum(row["use"] * row["even ms"] * row["zoo / even"] for row in rows) / total
    return (
        f"untuned {untuned:.4g} ms, even {even:.4g} ms, zoo {zoo:.4g} ms; "
        f"zoo / even {zoo / even:.3f}"
    )


def main() -> None:
    """Run both arms for each seed and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+", metavar="NET=USE")
    parser.add_argument("--trials", type=int, default=384)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="timing of each engine")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device_lock.FOLDER = Path(tempfile.mkdtemp())
    networks = [parse_network(text, threads=given.threads) for text in given.networks]
    rows = [
        row
        for seed in range(given.seeds)
        for row in compare(networks, given.trials, seed, given.seconds)
    ]
    for seed in range(given.seeds):
        own = [row for row in rows if row["seed"] == seed]
        print(f"seed {seed}, mean by use: {means_text(own)}")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
