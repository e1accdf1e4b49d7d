"""One module for every shape: exported models compiled once, over ranges, and run at many shapes.

    python benchmarks/shapes.py DIR [MODEL ...] [--points 64] [--threads 1,2]
                                [--lengths 1,7,16,...] [--seconds S] [--out FILE]
                                [--shape NAME=RANGE ...] [--store STORE]

DIR holds models as ``benchmarks/models.py --export`` writes them. Each is compiled once for the
ranges below. Then

    right     it runs at random points of the ranges, their ends among them: the largest difference
              from ONNX Runtime at that shape (one thread), relative to the largest output
    compile   seconds of the symbolic compile over those of a static one of the middle length
    code      bytes of machine code, the same
    first     milliseconds by which the first run of a shape takes longer than its second, medians:
              `grown` where a module has run the least shape alone, `near` next to one that it ran
    static    a call at each length over one of a network compiled for that length alone
    peer      the same over the better of ONNX Runtime and OpenVINO, both dynamic; both are medians
              of pairs, engines in turns with pauses

``--points 0`` leaves out the first, ``--seconds 0`` the last. ``--shape`` gives a symbol another
range, and ``--store`` says where a search of these ranges has left its records (of the symbolic
module; the static ones are untuned). Nothing is searched here.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _machine import describe_machine
from model_set.child import PAUSE_S, difference

import tilework as tw
from storage import RecordStore
from tilework.graph.onnx.symbols import evaluated
from tilework.runtime.module import Module
from tilework.runtime.samples import interleave, paired_ratio

Feeds = dict[str, np.ndarray]
Point = dict[str, int]

TEXT = {"batch": "1..8:1,4", "sequence": "1..512:16,64,128,384"}
CACHED = {
    "batch": "1..4:1",
    "sequence": "1..128:1,16",
    "past_sequence": "1..512:63,255",
    "past_and_sequence": "past_sequence + sequence",
}
SIZED = {
    "batch": "1..4:1",
    "height": "32..224:64,128",
    "width": "32..224:64,128",
    "rows": "8..28:16",
    "columns": "8..28:16",
    "frames": "20..400:100,200",
    "nodes": "2..600:500",
    "edges": "1..4000:3000",
}
RANGES: dict[str, dict[str, str]] = {
    "gpt2": CACHED,
    "llama": CACHED,
    "whisper_decoder": {"batch": "1..4:1", "sequence": "1..128:1,16,64"},
}
"""By model, where others than `TEXT` and `SIZED` say hold; symbols that a file lacks are left out,
and unknown ones are 1 to 8, typically 1 and 4."""
VARIED = ("sequence", "frames", "height", "rows", "nodes", "batch")
"""The symbol that ``--lengths`` are of: the first that a model has."""
LENGTHS = (1, 7, 16, 31, 64, 100, 128, 256, 384, 512)


WARMUP = 12
"""Runs of a shape before it is timed: among the first ones each module tries one thread."""


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--store")
    args = parser.parse_args()
    names = args.models or sorted(p.stem for p in args.folder.glob("*.onnx"))
    rows = []
    for name in names:
        for threads in map(int, args.threads.split(",")):
            target = tw.Target(f"llvm -mcpu=native -num-cores={threads}")
            row = {"model": name, "threads": threads}
            rows.append(row)
            try:
                measure(args.folder / f"{name}.onnx", target, args, row)
            except tw.TileworkError as error:
                row["refused"] = str(error).splitlines()[0]
            print(json.dumps(row), flush=True)
            if args.out:
                document = {"machine": describe_machine(tw.Target("llvm -mcpu=native"))}
                args.out.write_text(json.dumps(document | {"rows": rows}, indent=1))


def measure(path: Path, target: tw.Target, args: argparse.Namespace, row: dict[str, Any]) -> None:
    """Fill in what is found of a model."""
    declared = onnx.load(path, load_external_data=False).graph.input
    given = dict(text.split("=", 1) for text in args.shape)
    ranges = {name: given.get(name, text) for name, text in ranges_of(path.stem, declared).items()}
    rng = np.random.default_rng(0)
    records = None if args.store is None else RecordStore(args.store)
    began = time.perf_counter()
    module = tw.compile(tw.from_onnx(path, ranges), target, records, cache=False)
    row["compile_s"] = time.perf_counter() - began
    row["code_bytes"] = code_bytes(module)
    reference = dynamic_onnxruntime(path, target.num_cores)
    if args.points:
        alone = dynamic_onnxruntime(path, 1)  # its sums into places race with more threads
        row["right"] = check(module, alone, declared, ranges, rng, args.points)
    ratios: dict[str, dict[int, float]] = {"static": {}, "peer": {}}
    length = next(symbol for symbol in VARIED if symbol in ranges)
    low, high = bounds(ranges[length])
    engines = {"onnxruntime": reference, **dynamic_openvino(path, target.num_cores)}
    lengths = [n for n in map(int, args.lengths.split(",")) if low <= n <= high]
    middle = next((n for n in lengths if n >= 64), max(lengths, default=0))
    for n in lengths if args.seconds else ():
        at = point_at(ranges, {length: n, "batch": n if length == "batch" else 1})
        feeds = feeds_at(declared, at, rng)
        began = time.perf_counter()
        static = tw.compile(
            tw.from_onnx(path, {s: (v,) for s, v in at.items()}), target, cache=False
        )
        if n == middle:
            row["static_compile_s"] = time.perf_counter() - began
            row["static_code_bytes"] = code_bytes(static)
            row["first_ms"] = first_runs(
                module,
                [
                    feeds_at(declared, point_at(ranges, {**at, length: m}), rng)
                    for m in (low, *range(n, low, -1))
                ],
            )
        calls = {
            "symbolic": lambda f=feeds: module.run(f),
            "static": lambda f=feeds, s=static: s.run(f),
        }
        calls |= {name: (lambda run=run, f=feeds: run(f)) for name, run in engines.items()}
        taken = interleave(
            calls, 400, min_sample_s=0.01, warmup=WARMUP, settle_s=PAUSE_S,
            budget_s=args.seconds * len(calls),
        )  # fmt: skip
        peers = {name: paired_ratio(taken["symbolic"], taken[name]) for name in engines}
        ratios["static"][n] = paired_ratio(taken["symbolic"], taken["static"])
        ratios["peer"][n] = max(peers.values())
    for what, found in ratios.items():
        if found:
            row[what] = {n: round(r, 3) for n, r in found.items()}
            row[f"{what}_geomean"] = round(math.exp(np.mean(np.log(list(found.values())))), 3)


def check(
    module: Any,
    reference: Callable[[Feeds], list[np.ndarray]],
    declared: Any,
    ranges: Mapping[str, str],
    rng: np.random.Generator,
    count: int,
) -> dict[str, Any]:
    """Runs at random points: how many, the largest difference, and what was wrong."""
    worst, wrong = 0.0, []
    free = {name: bounds(text) for name, text in ranges.items() if ".." in text}
    for i in range(count):
        drawn = {
            name: ends[i] if i < 2 else int(rng.integers(ends[0], ends[1] + 1))
            for name, ends in free.items()
        }
        at = point_at(ranges, drawn)
        feeds = feeds_at(declared, at, rng)
        found = difference(list(module.run(feeds)), reference(feeds))
        worst = max(worst, found.get("max_error", 0.0))
        if "wrong" in found:
            wrong.append({**at, "wrong": found["wrong"]})
    return {"points": count, "max_error": worst, "wrong": wrong}


def ranges_of(name: str, declared: Any) -> dict[str, str]:
    """The ranges of a model's symbols."""
    text = {"sequence", "past_sequence"} & {
        dim.dim_param for value in declared for dim in value.type.tensor_type.shape.dim
    }
    known = RANGES.get(name, TEXT if text else SIZED)
    used = dict.fromkeys(
        word
        for value in declared
        for dim in value.type.tensor_type.shape.dim
        for word in re.findall(r"[A-Za-z_]\w*", dim.dim_param)
    )
    return {symbol: known.get(symbol, "1..8:1,4") for symbol in used}


def bounds(text: str) -> tuple[int, int]:
    """The ends of a range."""
    low, high = text.partition(":")[0].split("..")
    return int(low), int(high)


def point_at(ranges: Mapping[str, str], given: Mapping[str, int]) -> Point:
    """Values of all symbols: given ones, the first typical one of others, arithmetic of them."""
    at = {
        name: given.get(name, int(text.partition(":")[2].split(",")[0]))
        for name, text in ranges.items()
        if ".." in text
    }
    for name, text in ranges.items():
        if ".." not in text:
            at[name] = sum(at[term.strip()] for term in text.split("+"))
    return at


def feeds_at(declared: Any, at: Point, rng: np.random.Generator) -> Feeds:
    """Inputs of these shapes: masks of ones, small integers, or normal numbers."""
    feeds = {}
    for value in declared:
        tensor = value.type.tensor_type
        shape = [
            evaluated(d.dim_param, at) if d.dim_param else d.dim_value for d in tensor.shape.dim
        ]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if "mask" in value.name:
            feeds[value.name] = np.ones(shape, dtype)
        elif np.issubdtype(dtype, np.integer):
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
    return feeds


def first_runs(module: Module, feeds: Sequence[Feeds]) -> dict[str, float]:
    """Milliseconds by which a shape's first run takes longer than its second.

    Args:
        module: any; nothing of its own memory is used.
        feeds: of the least shape, of the one that is asked for, and of ones next to it.
    """

    def extra(module: Module, feeds: Feeds) -> float:
        for array in feeds.values():
            array.sum()  # both runs find it in the caches
        times = []
        for _ in range(2):
            began = time.perf_counter()
            module.run(feeds)
            times.append(time.perf_counter() - began)
        return 1e3 * (times[0] - times[1])

    least, asked, *others = feeds
    grown = []
    for _ in range(9):
        fresh = Module(module.image)
        extra(fresh, least)
        grown.append(extra(fresh, asked))
    near = [extra(fresh, next_to) for next_to in others[:9]]
    found = {"grown": grown, "near": near}
    return {name: round(float(np.median(taken)), 3) for name, taken in found.items() if taken}


def code_bytes(module: Any) -> int:
    """Bytes of a module's machine code."""
    return sum(map(len, module.image.code.values()))


def dynamic_onnxruntime(path: Path, threads: int) -> Callable[[Feeds], list[np.ndarray]]:
    """ONNX Runtime on the file as it is."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def dynamic_openvino(path: Path, threads: int) -> dict[str, Callable[[Feeds], Any]]:
    """OpenVINO on the file as it is, where it is installed."""
    try:
        import openvino
    except ImportError:
        return {}
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()
    return {"openvino": lambda feeds: request.infer(feeds, share_inputs=True)}


if __name__ == "__main__":
    main()
