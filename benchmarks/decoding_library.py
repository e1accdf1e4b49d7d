"""A decoder's tokens by a shared library and by the module it was made from, in turns.

    python benchmarks/decoding_library.py [--threads 2] [--groups 9] [--tokens 256] [--rounds 5]

Both continue a past in place; the library is called through ctypes, twice a token. Logits are
equal to the bit. What the module takes longer is Python: each token has another shape.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _cached import Size, decoder

import tilework as tw
from tilework.runtime.arrays import aligned_empty

_PAUSE_S = 0.05
Decode = Callable[[np.ndarray], np.ndarray]
"""Tokens, to be fed one after the other; returns the logits of the last one."""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("threads", 2), ("groups", 9), ("tokens", 256), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    size = Size(groups=args.groups)
    tokens = np.random.default_rng(0).integers(0, size.words, args.tokens)
    past = f"0..{args.tokens}:{args.tokens // 2}"
    net = tw.from_onnx(decoder(size), {"batch": (1,), "sequence": "1..16:1", "past": past})
    target = f"llvm -mcpu=native -num-cores={args.threads}"
    module = tw.compile(net, target, in_place=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "net.so"
        tw.write_library(module, place)
        compare(_by_module(module), _by_library(module, place, args.threads), tokens, args.rounds)


def compare(module: Decode, library: Decode, tokens: np.ndarray, rounds: int) -> None:
    """Both in turns; prints a line."""
    assert np.array_equal(module(tokens), library(tokens))
    took: dict[Decode, list[float]] = {module: [], library: []}
    for turn in range(rounds):
        for way in (module, library)[:: -1 if turn % 2 else 1]:
            time.sleep(_PAUSE_S)
            began = time.perf_counter()
            way(tokens)
            took[way].append((time.perf_counter() - began) / len(tokens))
    ratio = statistics.median(b / a for a, b in zip(took[module], took[library], strict=True))
    each = [1e3 * statistics.median(took[way]) for way in (module, library)]
    print(f"module {each[0]:.2f} ms a token, library {each[1]:.2f} ms, ratio {ratio:.2f}")


def _by_module(module: tw.Module) -> Decode:
    def decode(tokens: np.ndarray) -> np.ndarray:
        past = module.new_past()
        for token in tokens:
            mask = np.ones((1, past.length + 1), np.int64)
            ids = np.array([[token]], np.int64)
            found = module.run({"input_ids": ids, "attention_mask": mask}, past=past)
        return np.asarray(found[0])

    return decode


def _by_library(module: tw.Module, place: Path, threads: int) -> Decode:
    functions, image = ctypes.CDLL(str(place)), module.image
    context = ctypes.c_void_p()
    assert not functions.tw_net_create(threads, ctypes.byref(context))
    run, set_symbols = functions.tw_net_run, functions.tw_net_set_symbols
    buffers = {r.io: aligned_empty([1, *r.shape[1:]], r.dtype) for r in image.rooms}
    longest = max(s.high for s in image.symbols) + 16
    ids, mask = aligned_empty((1, 1), "int64"), aligned_empty((1, longest), "int64")
    logits = aligned_empty((1, 1, image.outputs[0].shape[-1]), image.outputs[0].dtype)
    mask[...] = 1
    own = {"input_ids": ids, "attention_mask": mask}
    inputs = _pointers([buffers[v.io] if v.io in buffers else own[v.name] for v in image.inputs])
    outputs = _pointers([None if v.io in buffers else logits for v in image.outputs])
    values = (ctypes.c_int64 * len(image.symbols))(*[1] * len(image.symbols))
    grown = [s.name for s in image.symbols].index("past")

    kept = buffers, mask  # what is pointed to lives as long as the function

    def decode(tokens: np.ndarray) -> np.ndarray:
        assert kept
        for length, token in enumerate(tokens):
            values[grown], ids[0, 0] = length, token
            assert not set_symbols(context, values)
            assert not run(context, inputs, outputs)
        return logits

    return decode


def _pointers(arrays: list[np.ndarray | None]) -> ctypes.Array[ctypes.c_void_p]:
    given = [None if a is None else a.ctypes.data for a in arrays]
    return (ctypes.c_void_p * len(given))(*given)


if __name__ == "__main__":
    main()
