"""One layer for an NVIDIA GPU: tune it, check it, read its schedule and CUDA C, search on.

    python examples/tune_conv2d_layer_cuda.py [--trials 16] [--target "cuda -model=a100"]

The last convolution of ResNet-50 with bias and ReLU, channels first, as one would write it in
index notation. There is no template: the space of schedules follows from the declaration.

Without a GPU the layer runs *emulated*: the same CUDA C runs on this CPU, a fibre for every thread
of a block. Results are exact; times are those of the emulation and say nothing of a GPU's. It
needs a C++ compiler, or ``pip install tilework[emulate]``.
"""

from __future__ import annotations

import argparse

import numpy as np

import tilework as tw
from storage import RecordStore
from tilework import te
from tilework.lower.listing import listing_of
from tilework.space import SearchSpace
from tilework.target.runs import caveat, mark

SHAPE = (1, 7, 7, 512, 512, 3, 3, 1, 1)
"""N, H, W, CO, CI, KH, KW, stride, padding of the last 3x3 convolution of ResNet-50."""


def conv2d_layer(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: int, padding: int
) -> list[te.Tensor]:
    """Declare convolution + bias + ReLU; returns the inputs, then the output."""
    data = te.placeholder((n, ci, h, w), "data")
    kernel = te.placeholder((co, ci, kh, kw), "kernel")
    bias = te.placeholder((1, co, 1, 1), "bias")
    padded = te.compute(
        (n, ci, h + 2 * padding, w + 2 * padding),
        lambda i, c, y, x: te.if_then_else(
            te.all(y >= padding, y < h + padding, x >= padding, x < w + padding),
            data[i, c, y - padding, x - padding],
            te.const(0.0),
        ),
        name="pad_temp",
    )
    rc, ry, rx = te.reduce_axis(ci, "rc"), te.reduce_axis(kh, "ry"), te.reduce_axis(kw, "rx")
    out_h, out_w = (h + 2 * padding - kh) // stride + 1, (w + 2 * padding - kw) // stride + 1
    conv = te.compute(
        (n, co, out_h, out_w),
        lambda i, f, y, x: te.sum(
            padded[i, rc, y * stride + ry, x * stride + rx] * kernel[f, rc, ry, rx],
            axis=[rc, ry, rx],
        ),
        name="conv",
    )
    biased = te.compute(
        conv.shape, lambda i, f, y, x: conv[i, f, y, x] + bias[0, f, 0, 0], name="biased"
    )
    out = te.compute(conv.shape, lambda i, f, y, x: te.relu(biased[i, f, y, x]), name="out")
    return [data, kernel, bias, out]


def reference(
    data: np.ndarray, kernel: np.ndarray, bias: np.ndarray, stride: int, padding: int
) -> np.ndarray:
    """The layer in NumPy, float64."""
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(data.astype(np.float64), around)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    conv = np.einsum("nchwyx,fcyx->nfhw", windows, kernel.astype(np.float64), optimize=True)
    return np.maximum(conv + bias, 0)


def choose_target(text: str) -> tw.Target:
    """The target of that text; without one the GPU that is here, or else an emulated one."""
    if text:
        target = tw.Target(text)
    else:
        try:
            target = tw.Target("cuda")
        except tw.TileworkError:
            target = tw.Target("cuda -model=a100 -run=emulated")
    print(f"Target: {target}" + (f" ({caveat(str(target))})" if mark(str(target)) else ""))
    return target


def search(task: tw.SearchTask, records: RecordStore, trials: int, run_id: str) -> None:
    """Measure up to ``trials`` new schedules; those in the store are not measured again."""
    with tw.Measurer(task.target) as measurer:
        result = tw.tune(
            [task],
            None,
            tw.TuningOptions(num_measure_trials=trials, num_measures_per_round=16),
            records,
            measurer,
            run_id=run_id,
        )
    (best,) = result.best
    if best is None:
        raise SystemExit("no schedule of the task could be measured")
    print(
        f"{result.trials} trials: best {1e3 * best.latency_s:.3f} ms, "
        f"{1e-9 * task.flops / best.latency_s:.1f} GFLOP/s{mark(str(task.target))}"
    )


def main() -> None:
    """Create the task, search, check, show schedule and code, rebuild from its record, resume."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=16, help="schedules to measure, twice")
    parser.add_argument("--target", default="", help="such as 'cuda -model=h100'")
    parser.add_argument("--store", default="conv2d-cuda", help="folder of the records")
    args = parser.parse_args()

    target = choose_target(args.target)
    task = tw.create_task(conv2d_layer, SHAPE, target)
    print("Computational DAG:")
    print(task.compute_dag)

    records = RecordStore(args.store)
    known = records.of(task.workload_key, str(target))
    before = len({(record.sketch_id, record.decisions) for record in known})
    print(f"{before} schedules are known from earlier runs; searching")
    search(task, records, args.trials, f"first-{before}")

    best = tw.load_best(records, task.workload_key, target)
    if best is None:
        raise SystemExit("the store holds no usable record of the layer")
    sketch = SearchSpace.of(task).sketch(best.sketch_id)
    print("Its schedule:")
    print(sketch.describe(best.decisions))
    code = listing_of(sketch, best.decisions)
    if code is not None:
        for heading, fact in code.facts.items():
            print(f"  {heading}: {fact}")
        print(f"\nAs {code.language}:\n{code.text}")

    if target.run != "simulated":
        run(task, records, best.sketch_id, best.decisions)

    print("Resuming the search:")
    search(task, records, args.trials, f"second-{before}")


def run(task: tw.SearchTask, records: RecordStore, sketch_id: int, row: tuple[int, ...]) -> None:
    """Compile with the best record, check and time; then again from sketch and row alone."""
    layer = tw.compile_task(task, records)
    rng = np.random.default_rng(0)
    data, kernel, bias = (
        rng.uniform(size=t.shape).astype(np.float32) for t in task.compute_dag.inputs
    )
    (out,) = layer(data, kernel, bias)
    want = reference(data, kernel, bias, stride=1, padding=1)
    np.testing.assert_allclose(out, want, rtol=1e-3)
    print("The output equals NumPy's")
    said = mark(str(task.target))
    long = 100 if not said else 1
    timing = layer.benchmark(repeat=5, min_repeat_ms=long)
    print(f"Execution time of this operator: {timing.median:.3f} ms{said}")

    print("Rebuilt from its record, without a search:")
    again = tw.compile_task(task, sketch_id=sketch_id, row=row)
    np.testing.assert_array_equal(again(data, kernel, bias)[0], out)
    timing = again.benchmark(repeat=5, min_repeat_ms=long)
    print(f"Execution time of this operator: {timing.median:.3f} ms{said}")


if __name__ == "__main__":  # worker processes import this file
    main()
