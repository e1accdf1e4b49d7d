"""A decoder that writes 256 tokens, one at a time, with a cache that grows.

    python benchmarks/decoding.py [--threads 1,2] [--tokens 256] [--rounds 5] [--groups 9]
                                  [--engines copying,in_place,onnxruntime,openvino]
    python benchmarks/decoding.py --billion --weights 'int4/32 level 4' --tokens 32 --prompt 128
                                  [--memory] [--grouped] [--past 1000] [--layers 4]

``in_place`` continues a past in its memory (`tilework.runtime.Past`), ``copying`` is the same
network whose outputs are handed back in; ONNX Runtime has the outputs of one run bound as the
inputs of the next, OpenVINO keeps them as states (with the input for the order of beams by which
it knows a cache). All are compiled once, for any past, begin with none or ``--past`` random
positions, and are fed the same tokens. The decoder is one of 12 layers in float32, or with
``--billion`` one of a billion weights (fewer with ``--layers``), ``--grouped`` one whose attention
is a node (`GroupQueryAttention`);
``--weights`` of products: packed ones of 4 bits, drawn at random (`_decoder.FORMS`). Engines take
turns of all tokens, with pauses; logits are compared after 32 tokens.

Bytes a token are those of the weights and of the cache so far; ours take turns with plain reads of
as many bytes (`_reads`) once more, token by token, which their share of the bandwidth is of: the
time of a read over that of a token. ``--prompt`` times
that many tokens in one run after no past, ``--memory`` the growth of a process, in which a small
decoder has run, by the large one that has run a prompt and some tokens.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from _cached import BILLION, Size, caches, decoder
from _decoder import FORMS
from _reads import Read

import tilework as tw
from tilework.kinds.cpu.target import CpuTarget

Step = Callable[[np.ndarray, int], np.ndarray]
"""Tokens that come behind so many positions; returns the logits."""
Begin = Callable[[int], Step]
"""So many random positions as a past; returns what continues it."""
_PAUSE_S = 0.05


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=9)
    parser.add_argument("--layers", type=int, default=None)
    parser.add_argument("--engines", default=",".join(_ENGINES))
    parser.add_argument("--billion", action="store_true", help="a decoder of a billion weights")
    parser.add_argument("--grouped", action="store_true", help="GroupQueryAttention")
    parser.add_argument("--past", type=int, default=0, help="positions that tokens come behind")
    parser.add_argument("--weights", default="float32", choices=["float32", *FORMS])
    parser.add_argument("--prompt", type=int, default=0, help="tokens, timed in one run")
    parser.add_argument("--memory", action="store_true", help="measure it instead of times")
    args = parser.parse_args()
    form = {"weights": args.weights, "grouped": args.grouped}
    size = Size(**BILLION, **form) if args.billion else Size(groups=args.groups, **form)
    if args.layers:
        size = replace(size, layers=args.layers)
    names = args.engines.split(",")
    tokens = np.random.default_rng(0).integers(0, size.words, args.tokens)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "decoder.onnx")
        onnx.save(decoder(size), path)
        for threads in map(int, args.threads.split(",")):
            if args.memory:
                memory(path, size, len(tokens), args.prompt, threads, names)
            else:
                compare(path, size, tokens, args.prompt, args.past, threads, names, args.rounds)


def compare(
    path: str,
    size: Size,
    tokens: np.ndarray,
    prompt: int,
    past: int,
    threads: int,
    names: list[str],
    rounds: int,
) -> None:
    """All engines in turns; prints a row for each."""
    most = max(prompt, past + len(tokens))
    engines = {name: _ENGINES[name](path, size, most, prompt, threads) for name in names}
    nbytes = int(size.weight_bytes + size.cache_bytes(past + len(tokens) / 2))
    took: dict[str, list[float]] = {name: [] for name in names}
    logits = {name: _decode(engine, tokens[:32], 1, past)[0] for name, engine in engines.items()}
    error = {n: float(np.abs(x - logits[names[-1]]).max()) for n, x in logits.items()}
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else names[::-1]:
            time.sleep(_PAUSE_S)
            took[name].append(_decode(engines[name], tokens, 1, past)[1] / len(tokens))
    read, ours = Read(nbytes, CpuTarget(), threads), set(names) & {"copying", "in_place"}
    shares = {name: _share(engines[name], tokens, past, read) for name in sorted(ours)}
    print(f"\n{threads} threads, {nbytes / 1e6:.0f} MB a token")
    print(
        "| engine | tokens/s | ms a token | share of bandwidth | in place over it | differs by |"
    )
    print("|---|---|---|---|---|---|")
    for name in names:
        mine = took.get("in_place", took[name])
        ratio = statistics.median(a / b for a, b in zip(mine, took[name], strict=True))
        each, share = statistics.median(took[name]), shares.get(name)
        cell = "" if share is None else f"{share[0]:.1%} of {1e-9 * nbytes / share[1]:.1f} GB/s"
        print(
            f"| {name} | {1 / each:.1f} | {1e3 * each:.2f} | {cell} | {ratio:.2f} | "
            f"{error[name]:.1e} |",
            flush=True,
        )
    if prompt:
        _time_prompt(engines, np.resize(tokens, prompt), rounds)


def _decode(engine: Begin, fed: np.ndarray, at_once: int, behind: int) -> tuple[np.ndarray, float]:
    """Tokens, so many at a time: the logits of the last run, and seconds."""
    step = engine(behind)
    began = time.perf_counter()
    for n in range(0, len(fed), at_once):
        logits = step(fed[n : n + at_once], behind + n)
    return np.array(logits), time.perf_counter() - began


def _share(engine: Begin, tokens: np.ndarray, past: int, read: Read) -> tuple[float, float]:
    """The time of a read over that of a token between two, and seconds of a read: medians."""
    step, reads, shares = engine(past), [read()], []
    for n in range(len(tokens)):
        start = time.perf_counter()
        step(tokens[n : n + 1], past + n)
        took = time.perf_counter() - start
        reads.append(read())
        shares.append((reads[-2] + reads[-1]) / 2 / took)
    return statistics.median(shares), statistics.median(reads)


def _time_prompt(engines: dict[str, Begin], prompt: np.ndarray, rounds: int) -> None:
    """A prompt in one run, by all engines in turns; prints a row for each."""
    names = list(engines)
    took: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-1, rounds):  # the first one is not counted
        for name in names if turn % 2 == 0 else names[::-1]:
            time.sleep(_PAUSE_S)
            _, seconds = _decode(engines[name], prompt, len(prompt), 0)
            if turn >= 0:
                took[name].append(seconds)
    print(f"\n| a prompt of {len(prompt)} | ms | in place over it |\n|---|---|---|")
    for name in names:
        mine = took.get("in_place", took[name])
        ratio = statistics.median(a / b for a, b in zip(mine, took[name], strict=True))
        print(f"| {name} | {1e3 * statistics.median(took[name]):.0f} | {ratio:.2f} |", flush=True)


def memory(
    path: str, size: Size, tokens: int, prompt: int, threads: int, names: list[str]
) -> None:
    """Growth of a process by an engine's session, each in a process of its own."""
    held = size.weight_bytes + size.embedding_bytes
    print(
        f"\n{threads} threads; weights {size.weight_bytes / 1e6:.0f} MB, with the table of words"
    )
    print(f"{held / 1e6:.0f} MB\n\n| engine | growth, MB | over weights and table | at the most |")
    print("|---|---|---|---|")
    for name in names:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            given = (name, path, size, max(tokens, prompt), prompt, threads)
            grown, most = pool.apply(_growth, given)
        print(
            f"| {name} | {grown / 1e6:.0f} | {grown / held:.2f} | {most / held:.2f} |", flush=True
        )


def _growth(
    name: str, path: str, size: Size, tokens: int, prompt: int, threads: int
) -> tuple[int, int]:
    """Bytes by which this process grows for a session that runs, then and at the most."""
    small = Size(1, 64, 64, 2, 2, 64, size.weights)
    fed = np.zeros(8, np.int64)
    with tempfile.TemporaryDirectory() as folder:
        little = str(Path(folder) / "decoder.onnx")
        onnx.save(decoder(small), little)
        first = _ENGINES[name](little, small, tokens, prompt, threads)
        _decode(first, fed, 1, 0)
    before = _resident("VmRSS")
    engine = _ENGINES[name](path, size, tokens, prompt, threads)
    if prompt:
        _decode(engine, np.zeros(prompt, np.int64), prompt, 0)
    _decode(engine, fed, 1, 0)
    return _resident("VmRSS") - before, _resident("VmHWM") - before


def _resident(what: str) -> int:
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(what))
    return 1024 * int(line.split()[1])


def _ours(path: str, tokens: int, prompt: int, threads: int, in_place: bool) -> tw.Session:
    return tw.Session(
        path,
        target=f"llvm -mcpu=native -num-cores={threads}",
        shapes={
            "batch": (1,),
            "sequence": f"1..{prompt}:1,{prompt}" if prompt else "1..16:1",
            "past": f"0..{tokens}:{tokens // 2}",
        },
        in_place=in_place,
    )


def _in_place(path: str, size: Size, tokens: int, prompt: int, threads: int) -> Begin:
    session = _ours(path, tokens, prompt, threads, True)

    def begin(behind: int) -> Step:
        past = session.new_past(_kept(size, behind))
        return lambda some, at: session.run(["logits"], _feeds(some, at), past=past)[0]

    return begin


def _copying(path: str, size: Size, tokens: int, prompt: int, threads: int) -> Begin:
    session = _ours(path, tokens, prompt, threads, False)

    def begin(behind: int) -> Step:
        kept = _kept(size, behind)

        def step(some: np.ndarray, at: int) -> np.ndarray:
            logits, *presents = session.run(None, {**_feeds(some, at), **kept})
            kept.update(zip(kept, presents, strict=True))
            return logits

        return step

    return begin


def _onnxruntime(path: str, size: Size, tokens: int, prompt: int, threads: int) -> Begin:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    pairs = caches(size)

    def begin(behind: int) -> Step:
        binding = session.io_binding()
        for name, array in _kept(size, behind).items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))

        def step(some: np.ndarray, at: int) -> np.ndarray:
            for name, array in _feeds(some, at).items():
                binding.bind_cpu_input(name, array)
            binding.clear_binding_outputs()
            for name in ("logits", *(present for _, present in pairs)):
                binding.bind_output(name)
            session.run_with_iobinding(binding)
            logits, *presents = binding.get_outputs()
            for (past, _), value in zip(pairs, presents, strict=True):
                binding.bind_ortvalue_input(past, value)
            return np.asarray(logits.numpy())

        return step

    return begin


def _openvino(path: str, size: Size, tokens: int, prompt: int, threads: int) -> Begin:
    import openvino as ov
    from openvino import opset13 as ops
    from openvino._offline_transformations import apply_make_stateful_transformation

    model = ov.Core().read_model(path)
    beams = ops.parameter([-1], ov.Type.i32, name="beam_idx")
    beams.output(0).get_tensor().add_names({"beam_idx"})
    model.add_parameters([beams])
    for past, _ in caches(size):
        value = model.input(past)
        readers = value.get_target_inputs()
        ordered = ops.gather(value, beams, ops.constant(0))
        for reader in readers:
            reader.replace_source_output(ordered.output(0))
    model.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(model, dict(caches(size)))
    compiled = ov.Core().compile_model(
        model,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f32",
        },
    )
    request = compiled.create_infer_request()

    def begin(behind: int) -> Step:
        request.reset_state()
        for state in request.query_state() if behind else ():
            (past,) = (past for past, _ in caches(size) if state.name.startswith(past))
            state.state = ov.Tensor(_kept(size, behind)[past])

        def step(some: np.ndarray, at: int) -> np.ndarray:
            feeds = {**_feeds(some, at), "beam_idx": np.zeros(1, np.int32)}
            request.infer(feeds, share_inputs=True, share_outputs=True)
            return np.asarray(request.get_output_tensor(0).data)

        return step

    return begin


def _feeds(tokens: np.ndarray, past: int) -> dict[str, np.ndarray]:
    return {
        "input_ids": tokens[None],
        "attention_mask": np.ones((1, past + len(tokens)), np.int64),
    }


def _kept(size: Size, length: int) -> dict[str, np.ndarray]:
    """Random keys and values of so many positions, the same at each call."""
    rng = np.random.default_rng(1)
    shape = (1, size.groups, length, size.head)
    return {n: rng.standard_normal(shape, np.float32) for n, _ in caches(size)}


_ENGINES: dict[str, Callable[[str, Size, int, int, int], Begin]] = {
    "copying": _copying,
    "in_place": _in_place,
    "openvino": _openvino,
    "onnxruntime": _onnxruntime,
}


if __name__ == "__main__":
    main()
