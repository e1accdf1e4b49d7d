"""What a compile over ranges takes beside one of numbers, in processes of their own.

    python benchmarks/range_compile.py DIR [MODEL ...] [--rounds 5] [--target TARGET]
                                       [--trees TREE,TREE]

DIR holds text models as ``benchmarks/models.py --export`` writes them. Each is compiled over the
ranges of ``benchmarks/shapes.py`` and at one point of them: batch 1, a length of 128, a past of
63. A line holds the CPU seconds of `tilework.compile` by all threads, without packing weights, its
seconds by the clock, with it, and the CPU seconds of its stages: of each the least of some
processes, one for each round, in turns; the first of them leave byte code behind, so that one
round says nothing. Nothing is kept, and there is no store. ``--trees`` are checkouts to compare,
by default this one alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import onnx
from shapes import ranges_of

AT = {
    "batch": 1, "sequence": 128, "past_sequence": 63, "past_and_sequence": 191,
    "height": 64, "width": 64, "rows": 16, "columns": 16,
}  # fmt: skip

MODELS = [
    "minilm", "t5_encoder", "bert", "gpt2",
    "classifier_sizes", "segmenter_sizes", "detector_sizes", "convnext_sizes",
]  # fmt: skip

_CHILD = """
    import hashlib, json, sys, time
    tree, path, shapes, where = sys.argv[1:]
    sys.path.insert(0, tree)
    import tilework as tw
    from tilework.stages import ordered, watching
    net = tw.from_onnx(path, json.loads(shapes))
    target, cpu, clock = tw.Target(where), time.process_time(), time.perf_counter()
    with watching() as spent:
        module = tw.compile(net, target, None, cache=False)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    stages = {name: s.cpu_s for name, s in ordered(spent).items()}
    row = {"cpu_s": cpu - stages.pop("pack", 0.0), "clock_s": clock, **stages}
    code = b"".join(code for _, code in sorted(module.image.code.items()))
    row |= {"code_bytes": len(code), "code_hash": hashlib.sha256(code).hexdigest()[:12]}
    print(json.dumps(row))
"""


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", default="llvm -mcpu=native -num-cores=1")
    parser.add_argument("--trees", default=str(Path(__file__).parents[1]))
    args = parser.parse_args()
    for name in args.models:
        path = args.folder / f"{name}.onnx"
        declared = onnx.load(path, load_external_data=False).graph.input
        ranges = ranges_of(name, declared)
        shapes: dict[str, dict[str, Any]] = {
            "static": {s: [AT[s]] for s in ranges},
            "ranges": dict(ranges),
        }
        ways = [(tree, what) for tree in args.trees.split(",") for what in shapes]
        least: dict[tuple[str, str], dict[str, Any]] = {}
        for _ in range(args.rounds):
            for tree, what in ways:
                row = compiled(tree, path, shapes[what], args.target)
                before = least.get((tree, what), row)
                least[tree, what] = {k: min(row[k], before.get(k, row[k])) for k in row}
        for tree, what in ways:
            row = least[tree, what]
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(json.dumps({"model": name, "tree": tree, "what": what, **shown}), flush=True)
            if what == "ranges":
                static = least[tree, "static"]
                cpu, clock, code = (row[k] / static[k] for k in ("cpu_s", "clock_s", "code_bytes"))
                print(
                    f"{name}: {cpu:.2f} of a static compile's CPU seconds, {clock:.2f} of its "
                    f"seconds by the clock, {code:.2f} of its code",
                    flush=True,
                )


def compiled(tree: str, path: Path, shapes: dict[str, Any], target: str) -> dict[str, Any]:
    """What one compile in a fresh process takes."""
    command = [sys.executable, "-c", textwrap.dedent(_CHILD)]
    command += [tree, str(path), json.dumps(shapes), target]
    with_byte_code = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    said = subprocess.check_output(command, text=True, env=with_byte_code)
    row: dict[str, Any] = json.loads(said)
    return row


if __name__ == "__main__":
    main()
