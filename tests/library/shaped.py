"""Libraries of symbolic shapes, and what `shapes.c` reads and writes."""

from __future__ import annotations

import subprocess

import numpy as np
import onnxruntime as ort

import tilework as tw
from tests.graph import symbolic_models

RANGES = {"batch": "1..3:1", "seq": "1..61:8,32"}
POINTS = [(1, 1), (3, 61), (1, 61), (2, 31), (3, 7), (1, 16), (2, 37), (3, 1), (1, 33)]


def encoder(target):
    """A module, and another engine's session of the same model."""
    model = symbolic_models.encoder(1).SerializeToString()
    module = tw.compile(tw.from_onnx(symbolic_models.encoder(1), RANGES), target)
    return module, ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def feeds(batch, seq, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, symbolic_models.WORDS, (batch, seq))
    mask = np.ones_like(ids)
    mask[-1, seq // 2 + 1 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def write_runs(path, runs):
    """Each is how shapes are told, values of the symbols, and the inputs in order."""
    with path.open("wb") as file:
        file.write(np.int64(len(runs)).tobytes())
        for how, symbols, arrays in runs:
            file.write(np.array([how, *symbols], np.int64).tobytes())
            for a in arrays:
                file.write(np.array([a.ndim, *a.shape], np.int64).tobytes() + a.tobytes())


def read_outputs(path, dtypes):
    """Outputs of all runs that were not refused."""
    data, out = path.read_bytes(), []
    while data:
        found = []
        for dtype in dtypes:
            rank = int(np.frombuffer(data, np.int64, 1)[0])
            shape = np.frombuffer(data, np.int64, rank, 8)
            begin, size = 8 + 8 * rank, int(shape.prod())
            found.append(np.frombuffer(data, dtype, size, begin).reshape(shape))
            data = data[begin + found[-1].nbytes :]
        out.append(found)
    return out


def run(command, library, runs, dtypes, threads, folder):
    """Outputs of the runs of the program, and what it printed."""
    write_runs(folder / "in", runs)
    done = subprocess.run(
        [*command, library, folder / "in", folder / "out", str(threads)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return read_outputs(folder / "out", dtypes), done.stdout.splitlines()
