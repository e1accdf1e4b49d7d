"""The search: how fast it thinks, and how many trials it needs.

    python benchmarks/search.py [--measure] [--json FILE]

Speeds are CPU time of one core, so that other work on the machine disturbs little; medians are
printed. Scoring is features, draft model and XGBoost prediction of a population of a 3x3
convolution with a fused epilogue; evolving adds the operators; proposing is one whole step of the
search; compiling is lowering, code generation and assembly of the candidates it proposes. Trials
come from the recorded dataset (`record_replay.py`): of ours, of the original's features, trees and
selection, with knowledge of another target and without. ``--measure`` adds what takes a machine
to itself: trials per second, failures, the time to 220 GFLOP/s on one layer, the regret of the
schedules chosen under a busy process, and networks untuned over tuned.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from _dataset import DATASET
from _replay import (
    STRATEGIES,
    Strategy,
    World,
    chosen_tasks,
    geomean,
    knowledge_for,
    open_dataset,
    ours,
    trials_needed,
)
from _tasks import conv2d_task, replay_tasks
from regret import selection_regret

import tilework as tw
from storage import RecordStore
from tilework.lower.protocol import builder_of
from tilework.model import Batch, Observation, XGBModel
from tilework.model.draft import draft_of
from tilework.record import MemoryHistory
from tilework.search import PolicyParams, SketchPolicy
from tilework.search.evolve import evolve
from tilework.search.pool import Pool, PoolSpace
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

REPLAYED = ("llvm -mcpu=x86-64-v4 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1")
PAIRS = (
    "llvm -mcpu=x86-64-v4 -num-cores=1 -> llvm -mcpu=x86-64-v3 -num-cores=1",
    "llvm -mcpu=x86-64-v4 -num-cores=1 -> llvm -mcpu=x86-64-v4 -num-cores=2",
)
"""Where searches with transfer come from, and where they search."""
RECORDS = Path(__file__).parent / "records"
"""Best records of the networks that are compared with their untuned selves."""


def median_seconds(run: Callable[[], object], repeat: int) -> float:
    """Median CPU seconds of ``repeat`` calls, after one that is not counted."""
    run()
    samples = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        samples.append(time.process_time() - start)
    return statistics.median(samples)


def scoring(task: SearchTask, population: int = 8192, repeat: int = 9) -> dict[str, float]:
    """Candidates per second through features alone, and through features and prediction."""
    space, rng = SearchSpace.of(task), np.random.default_rng(0)
    sketch, draft = space.sketches[0], draft_of(task.target)
    model = XGBModel(seed=0)
    known = sketch.sample(rng, 512)
    batch = Batch(task.workload_key, task.flops, sketch, known, draft)
    noise = rng.lognormal(sigma=0.2, size=len(known))
    model.update([Observation(batch, draft.seconds(sketch, known) * noise)])
    rows = [sketch.sample(rng, population) for _ in range(2)]
    turn = [0]

    def fresh() -> np.ndarray:
        turn[0] ^= 1  # two populations in turn: nothing kept from the last call helps
        return rows[turn[0]]

    features = median_seconds(lambda: draft.features(sketch, fresh()), repeat)
    both = median_seconds(
        lambda: model.predict(Batch(task.workload_key, task.flops, sketch, fresh(), draft)), repeat
    )
    return {
        "features_per_s": population / features,
        "features_and_prediction_per_s": population / both,
        "evolution_per_s": evolving(task, model),
    }


def evolving(task: SearchTask, model: XGBModel, population: int = 8192) -> float:
    """Candidates per second through operators, features and prediction: evolution alone."""
    space = PoolSpace.of(task)

    def evaluate(pool: Pool) -> Pool:
        draft_s, score = np.zeros(len(pool)), np.zeros(len(pool))
        for index, sketch in enumerate(space.sketches):
            where, rows = space.rows_of(pool, index)
            if len(where):
                batch = Batch(task.workload_key, task.flops, sketch, rows, space.draft)
                draft_s[where], score[where] = batch.draft_s, model.predict(batch)
        return pool.with_scores(draft_s, score)

    params = PolicyParams(population=population, generations=4)
    counts = []

    def run() -> None:
        rng = np.random.default_rng(0)
        found = evolve(rng, space, space.sample(rng, population), evaluate, params)
        counts.append(len(found))

    seconds = median_seconds(run, 3)
    return counts[-1] / seconds


def refitting(records: int = 200) -> dict[str, float]:
    """Seconds of one core for a refit on 25 tasks with 200 records each."""
    import tilework as tw

    model, rng = XGBModel(seed=0), np.random.default_rng(0)
    tasks, _ = tw.extract_tasks(tw.zoo.get("resnet-50"), Target("llvm -num-cores=1"))
    for task in tasks[:25]:
        sketches = SearchSpace.of(task).sketches
        for sketch in sketches:
            rows = sketch.sample(rng, -(-records // len(sketches)))
            batch = Batch(task.workload_key, task.flops, sketch, rows, draft_of(task.target))
            noise = rng.lognormal(sigma=0.2, size=len(rows))
            model.observe(Observation(batch, batch.draft_s * noise))
    return {"records": model.num_observations, "refit_s": median_seconds(model.fit, 5)}


def measuring(seconds: float = 30.0) -> dict[str, float]:
    """Trials per second, failures, and the seconds to 220 GFLOP/s on two threads."""
    from tilework.measure import Measurer
    from tilework.search import TuningOptions, TuningRun, TuningSession
    from tilework.search.tune import run_round

    target = Target("llvm -num-cores=2")
    small = [t for t in replay_tasks(target) if t.flops < 2.4e8]
    trials = failed = 0
    with Measurer(target) as measurer:
        began = time.perf_counter()
        options = TuningOptions(seconds=seconds, num_measures_per_round=32)
        session = TuningSession(TuningRun(small, options, "benchmark"), MemoryHistory())
        while (index := session.next_task()) is not None:
            done = run_round(session, index, measurer)
            if done is not None:
                trials += len(done.records)
                failed += sum(not r.usable for r in done.records)
        spent = time.perf_counter() - began
        layer = conv2d_task(14, 256, 256, 3, 1, target)
        began, reached = time.perf_counter(), float("nan")
        options = TuningOptions(seconds=seconds, num_measures_per_round=16)
        session = TuningSession(TuningRun([layer], options, "benchmark"), MemoryHistory())
        while (index := session.next_task()) is not None:
            run_round(session, index, measurer)
            if layer.flops / session.scheduler.states[0].best_s > 220e9:
                reached = time.perf_counter() - began
                break
    return {
        "trials_per_s": trials / spent, "trials": trials, "failed_share": failed / max(trials, 1),
        "seconds_to_220_gflops": reached,
    }  # fmt: skip


def choosing() -> dict[str, float]:
    """Regret of the chosen schedules under a busy process; untuned over tuned networks."""
    target = Target("llvm -num-cores=2")
    out = {
        f"{how}_regret_{kind}": value
        for how, row in selection_regret(target).items()
        for kind, value in row.items()
    }
    for name in ("resnet-18", "resnet-50"):
        net = tw.zoo.get(name)
        pair = [tw.compile(net, target), tw.compile(net, target, RecordStore(RECORDS))]
        ratios = []
        for _ in range(7):
            untuned, tuned = (m.benchmark(repeat=1, min_repeat_ms=200).median for m in pair)
            ratios.append(untuned / tuned)
        out[f"untuned_over_tuned_{name}"] = statistics.median(ratios)
    return out


def compiling(task: SearchTask, count: int = 64) -> dict[str, float]:
    """Milliseconds of one core for each candidate of a batch that the search proposes."""
    times, builder = [], builder_of(task.target)
    for candidate in SketchPolicy(task).propose(MemoryHistory(), count):
        start = time.process_time()
        builder.build(task, candidate.sketch_id, candidate.row)
        times.append(1e3 * (time.process_time() - start))
    return {"compile_median_ms": statistics.median(times), "compile_max_ms": max(times)}


def proposing(task: SearchTask) -> dict[str, float]:
    """Seconds of one core for a whole proposal step: sample, evolve, pick 64."""
    policy = SketchPolicy(task)
    start = time.process_time()
    policy.propose(MemoryHistory(), 64)
    return {"propose_s": time.process_time() - start}


def thinking(target: Target) -> dict[str, object]:
    """How many candidates a second; seconds of a proposal, of a compilation, of a refit."""
    speed = {}
    for size, channels, kernel in ((56, 64, 3), (14, 256, 3), (56, 64, 1)):
        task = conv2d_task(size, channels, channels, kernel, 1, target)
        speed[task.desc] = scoring(task) | proposing(task) | compiling(task)
    print(
        f"{'one core':28s} {'features/s':>11s} {'+ XGBoost/s':>11s} "
        f"{'+ evolution':>11s} {'propose s':>9s} {'compile ms':>10s} {'max':>5s}"
    )
    for desc, row in speed.items():
        print(
            f"{desc:28s} {row['features_per_s']:11,.0f} "
            f"{row['features_and_prediction_per_s']:11,.0f} {row['evolution_per_s']:11,.0f} "
            f"{row['propose_s']:9.2f} {row['compile_median_ms']:10.1f} "
            f"{row['compile_max_ms']:5.0f}"
        )
    refit = refitting()
    print(f"\nrefit on {refit['records']:.0f} records of 25 tasks: {refit['refit_s']:.2f} s")
    return {"speed": speed, "refit": refit}


def replaying(args: argparse.Namespace) -> dict[str, object]:
    """Trials on recorded programs: ours, the original, chance; with knowledge of other targets."""
    history = open_dataset(args.dataset)
    found: dict[str, object] = {}
    for text in args.replay:
        world = World.of(history, str(Target(text)))
        tasks = chosen_tasks(world, args.tasks)
        needed = {
            name: trials_needed(world, strategy, tasks, args.seeds)
            for name, strategy in STRATEGIES.items()
        }
        print(f"\n{text}: trials until within 5 % of the best of the recorded programs")
        found[text] = told(world, tasks, needed)
    for pair in args.transfer:
        source, to = (str(Target(text)) for text in pair.split(" -> "))
        world = World.of(history, to)
        tasks = chosen_tasks(world, args.tasks)
        knowledge = knowledge_for(history, to, source, tasks)
        strategies: dict[str, Strategy] = {
            "from scratch": ours,
            "with transfer": lambda w, t, s, k=knowledge: ours(w, t, s, k),
        }
        needed = {n: trials_needed(world, f, tasks, args.seeds) for n, f in strategies.items()}
        print(f"\n{pair}: trials until within 5 % of the best of the recorded programs")
        found[pair] = told(world, tasks, needed)
    return found


def told(
    world: World, tasks: Sequence[SearchTask], needed: dict[str, dict[str, list[int]]]
) -> dict[str, object]:
    """Prints a table of trials: medians and spread over the seeds."""
    width = max(18, *(len(name) + 1 for name in needed))
    print(f"{'':40s} {'rows':>5s} {'good':>5s}" + "".join(f"{n:>{width}s}" for n in needed))
    for task in tasks:
        records = world.replay.records(task)
        good = sum((r.latency_s or math.inf) <= world.goal_s(task) for r in records)
        line = f"{task.desc[:40]:40s} {len(records):5d} {good:5d}"
        for counts in needed.values():
            of = counts[task.workload_key]
            text = f"{statistics.median(of):.0f} ({min(of)}-{max(of)})"
            line += f"{text:>{width}s}"
        print(line)
    means = {}
    for name, counts in needed.items():
        seeds = zip(*(counts[t.workload_key] for t in tasks), strict=True)
        means[name] = [geomean(list(seed)) for seed in seeds]
    line = f"{'geomean of the tasks':52s}"
    for of in means.values():
        text = f"{statistics.median(of):.1f} ({min(of):.1f}-{max(of):.1f})"
        line += f"{text:>{width}s}"
    print(line)
    return {"tasks": {t.workload_key: t.desc for t in tasks}, "needed": needed, "geomean": means}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="also what needs quiet cores")
    parser.add_argument("--replays", action="store_true", help="nothing but the replays")
    parser.add_argument("--seeds", type=int, default=5, help="replayed searches of each task")
    parser.add_argument("--dataset", type=Path, nargs="*", default=[DATASET], help="stores")
    parser.add_argument("--tasks", type=int, default=16, help="that are replayed, of each target")
    parser.add_argument("--replay", nargs="*", default=list(REPLAYED), help="targets")
    parser.add_argument("--transfer", nargs="*", default=list(PAIRS), help="FROM -> TO")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    target = Target("llvm")
    found = {} if args.replays else thinking(target)
    found["replayed"] = replaying(args)
    live = measuring() | choosing() if args.measure else {}
    for name, value in live.items():
        print(f"{name:32s} {value:.4g}")
    if args.json:
        document = {"target": str(target), **found, "measured": live}
        args.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
