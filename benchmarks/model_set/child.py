"""One measurement in a process of its own; what it found is the last line that it prints.

    python -m model_set.child first ENGINE MODEL THREADS CACHE
    python -m model_set.child turns ENGINES MODEL THREADS CACHE SECONDS

``first``: seconds from the imports' end to the first answer. ``turns``: which engines open the
model, whether they agree with ONNX Runtime, and, if SECONDS are not 0, times in turns.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Feeds = dict[str, np.ndarray]
Outputs = list[np.ndarray]
Run = Callable[[Feeds], Outputs]


class Opened(NamedTuple):
    """A model in an engine: how it is run, and what the engine says of inputs it has run."""

    run: Run
    facts: Callable[[Feeds], dict[str, Any]] = lambda _: {}


OURS, REFERENCE = "tilework", "onnxruntime"
PAUSE_S = 0.03
"""Before every sample: pools of threads spin for a while after a call, on the cores of whoever
comes next."""


def _tilework(path: Path, feeds: Feeds, threads: int, cache: str) -> Opened:
    import tilework.session as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(path, options, cache=cache)

    def facts(x: Feeds) -> dict[str, Any]:
        """Which share of the operations we run, and what is left to another engine."""
        left = getattr(session.module_for(x).image, "left", None)
        if left is None:
            return {"share": 1.0, "left": ""}
        return {"share": 1 - (left.share or 0.0), "left": ", ".join(left.operators)}

    return Opened(lambda x: session.run(None, x), facts)


def _onnxruntime(path: Path, feeds: Feeds, threads: int, cache: str) -> Opened:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(str(path), options, providers=providers)
    return Opened(lambda x: session.run(None, x))


def _openvino(path: Path, feeds: Feeds, threads: int, cache: str) -> Opened:
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: list(x.shape) for name, x in feeds.items()})
    compiled = core.compile_model(
        model,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        },
    )
    request = compiled.create_infer_request()

    def run(x: Feeds) -> Outputs:
        request.infer(x, share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return Opened(run)


ENGINES: dict[str, Callable[[Path, Feeds, int, str], Opened]] = {
    OURS: _tilework, REFERENCE: _onnxruntime, "openvino": _openvino,
}  # fmt: skip


def first(engine: str, model: str, threads: str, cache: str) -> dict[str, Any]:
    """Seconds of a fresh process from its imports to the first answer."""
    path, feeds = Path(model), _feeds(Path(model))
    importlib.import_module("tilework.session" if engine == OURS else engine)
    began = time.perf_counter()
    try:
        ENGINES[engine](path, feeds, int(threads), cache).run(feeds)
    except Exception as error:  # whatever an engine says is the result
        return {"error": _line(error)}
    return {"seconds": time.perf_counter() - began}


def turns(engines: str, model: str, threads: str, cache: str, seconds: str) -> dict[str, Any]:
    """What engines say of a model, their differences from ONNX Runtime, and their times."""
    path, feeds = Path(model), _feeds(Path(model))
    runs: dict[str, Run] = {}
    outputs: dict[str, Outputs] = {}
    found: dict[str, dict[str, Any]] = {name: {} for name in engines.split(",")}
    for name, said in found.items():
        try:
            run, facts = ENGINES[name](path, feeds, int(threads), cache)
            outputs[name] = [np.array(y) for y in run(feeds)]
            said |= facts(feeds)
        except Exception as error:
            said["error"] = _line(error)
            continue
        runs[name] = run
    if REFERENCE in outputs:
        for name, made in outputs.items():
            found[name] |= difference(made, outputs[REFERENCE])
    if float(seconds) > 0:
        _time(runs, feeds, float(seconds), found)
    return found


@np.errstate(invalid="ignore")
def difference(made: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> dict[str, Any]:
    """The largest difference over the largest expected magnitude, or what makes it none."""
    if [y.shape for y in made] != [y.shape for y in expected]:
        shapes = [list(map(list, (y.shape for y in some))) for some in (made, expected)]
        return {"wrong": f"shapes {shapes[0]} instead of {shapes[1]}"}
    worst = 0.0
    for a, b in zip(made, expected, strict=True):
        if not b.size:
            continue
        if not np.issubdtype(b.dtype, np.floating):
            if not np.array_equal(a, b):
                return {"wrong": f"{int((a != b).sum())} of {b.size} integers differ"}
            continue
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not (same | (np.isfinite(a) & np.isfinite(b))).all():
            return {"wrong": "infinities or NaN where ONNX Runtime has numbers, or the reverse"}
        gap = np.abs(np.where(same, 0, a.astype(np.float64) - b)).max()
        worst = max(worst, float(gap / max(np.abs(np.where(np.isfinite(b), b, 0)).max(), 1e-30)))
    return {"max_error": worst}


def _time(
    runs: dict[str, Run], feeds: Feeds, seconds: float, found: dict[str, dict[str, Any]]
) -> None:
    from tilework.runtime.samples import interleave, paired_ratio

    calls = {name: (lambda run=run: run(feeds)) for name, run in runs.items()}
    samples = interleave(
        calls, 400, min_sample_s=0.02, warmup=3, settle_s=PAUSE_S,
        budget_s=2 * seconds * len(calls),
    )  # fmt: skip
    for name, taken in samples.items():
        found[name] |= {
            "ms": 1e3 * taken.median, "samples": len(taken.seconds), "discarded": taken.discarded,
        }  # fmt: skip
        if OURS in samples and name != OURS:
            found[name]["ratio"] = paired_ratio(samples[OURS], taken)


def _feeds(path: Path) -> Feeds:
    """The inputs that were exported with a model, aligned so that no engine copies them."""
    from tilework.runtime.arrays import aligned_copy

    with np.load(path.with_suffix(".npz"), allow_pickle=False) as kept:
        return {name: aligned_copy(kept[name]) for name in kept.files}


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    sys.stdout.write(f"\n{json.dumps({'first': first, 'turns': turns}[mode](*rest))}\n")
