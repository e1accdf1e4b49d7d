"""Learns how many registers kernels take from kernels that it compiles; no GPU is needed.

    python -m benchmarks.registers.train [--count N] [--out FILE]

`tilework.kinds.cuda.registers` reads what is learnt.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.registers.samples import USUAL_TARGETS, Sample, samples
from tilework.errors import TileworkError
from tilework.kinds.cuda.registers import FILE, INPUTS, Trees, to_json
from tilework.kinds.cuda.source.nvrtc import compiler_name

DEPTH, ROUNDS = 4, 32

FEWEST = 500
"""Kernels that a model which replaces the installed one has to be learnt from."""


def fit(found: Sequence[Sample], seed: int = 0) -> Trees:
    """Trees that correct the count of registers: the logarithm of demand over count."""
    import xgboost

    inputs = np.stack([s.inputs for s in found])
    counted = inputs[:, INPUTS.index("counted")]
    ratio = np.log2([s.demand for s in found]) - np.log2(np.maximum(counted, 8.0))
    data = xgboost.DMatrix(inputs, label=ratio, feature_names=list(INPUTS))
    options = {
        "max_depth": DEPTH, "eta": 0.17, "lambda": 2.0, "min_child_weight": 3.0, "subsample": 0.8,
        "colsample_bytree": 0.7, "base_score": 0.0, "seed": seed, "nthread": 1,
        "objective": "reg:squarederror",
    }  # fmt: skip
    booster = xgboost.train(options, data, num_boost_round=ROUNDS)
    trees = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    return _complete(trees)


def _complete(trees: Sequence[dict[str, Any]]) -> Trees:
    """Trees of one depth: a leaf further up stands for all below it."""
    inner = 2**DEPTH - 1
    features = np.zeros((len(trees), inner), np.intp)
    thresholds = np.full((len(trees), inner), np.inf, np.float32)
    leaves = np.zeros((len(trees), inner + 1), np.float32)

    def put(tree: int, node: int, found: dict[str, Any]) -> None:
        if node >= inner:
            leaves[tree, node - inner] = found["leaf"]
        elif "leaf" in found:
            put(tree, 2 * node + 1, found)
            put(tree, 2 * node + 2, found)
        else:
            features[tree, node] = INPUTS.index(found["split"])
            thresholds[tree, node] = found["split_condition"]
            by_id = {child["nodeid"]: child for child in found["children"]}
            put(tree, 2 * node + 1, by_id[found["yes"]])
            put(tree, 2 * node + 2, by_id[found["no"]])

    for number, tree in enumerate(trees):
        put(number, 0, tree)
    thresholds[~np.isfinite(thresholds)] = 3e38  # a leaf: both sides are the same
    return Trees(features, thresholds, leaves, 0.0)


def predicted(trees: Trees, found: Sequence[Sample]) -> np.ndarray[Any, Any]:
    """Registers of samples, bounded by what each may take."""
    inputs = np.stack([s.inputs for s in found])
    counted = np.maximum(inputs[:, INPUTS.index("counted")], 8.0)
    most = np.array([s.most for s in found])
    return np.asarray(np.minimum(counted * np.exp2(trees(inputs)), most))


def held_out(found: Sequence[Sample]) -> tuple[float, float]:
    """Correlation of registers with their count, and with the prediction for unseen tasks.

    Raises:
        ValueError: the kernels are those of a single task.
    """
    names = sorted({s.task for s in found})
    if len(names) < 2:
        raise ValueError(f"kernels of {len(names)} tasks: at least two are needed")
    truth, guess, counted = [], [], []
    folds = min(4, len(names))
    for fold in range(folds):
        test = [s for s in found if names.index(s.task) % folds == fold]
        trees = fit([s for s in found if names.index(s.task) % folds != fold])
        truth += [s.registers for s in test]
        guess += predicted(trees, test).tolist()
        counted += [min(s.inputs[INPUTS.index("counted")], s.most) for s in test]
    return (
        float(np.corrcoef(truth, counted)[0, 1]),
        float(np.corrcoef(truth, guess)[0, 1]),
    )


def learn(
    found: Sequence[Sample],
    out: Path = FILE,
    seed: int = 0,
    targets: Sequence[str] = USUAL_TARGETS,
) -> str:
    """Learn from compiled kernels and write what `tilework.kinds.cuda.registers` reads.

    Args:
        found: the kernels.
        out: the file, which is replaced as a whole.
        seed: of the choices that training makes.
        targets: that the kernels were compiled for, for the note.

    Returns:
        A line that says how well it went, which the file holds, too.

    Raises:
        ValueError: the kernels are those of a single task.
        OSError: the file cannot be written.
    """
    before, after = held_out(found)
    note = (
        f"{len(found)} kernels by {compiler_name()} for {', '.join(targets)}; correlation with "
        f"registers on unseen tasks {after:.2f}, of the count alone {before:.2f}"
    )
    part = out.with_name(f".{out.name}.{os.getpid()}")
    part.write_text(to_json(fit(found, seed), note), encoding="utf-8")
    part.replace(out)
    return note


def main(argv: Sequence[str] | None = None) -> None:
    """Compile, learn, and say how well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=900, help="kernels to compile (900)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of schedules")
    parser.add_argument(
        "--out", type=Path, default=FILE, help="file to write; default: what Tilework reads"
    )
    args = parser.parse_args(argv)
    if args.out == FILE and args.count < FEWEST:
        parser.error(
            f"--count {args.count}: below {FEWEST}, kernels teach worse than what is installed; "
            "name another file with --out to try"
        )
    found = []
    try:
        for sample in samples(count=args.count, seed=args.seed):
            found.append(sample)
            if len(found) % 50 == 0:
                sys.stderr.write(f"{len(found)} kernels\n")
        sys.stdout.write(f"{learn(found, args.out, args.seed)}\n")
    except (TileworkError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
