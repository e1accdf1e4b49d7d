"""How far the estimates of ``tilework extract`` are off: compiles networks, each in a new process.

    python benchmarks/estimate.py                            # the zoo
    python benchmarks/estimate.py mobilenet model.onnx

Seconds of the processor, which other programs disturb less than those of the clock: a compile uses
one core. Where rows leave their range on an idle machine, the constants of `tasks/estimate.py`
want to be fitted anew.
"""

from __future__ import annotations

import subprocess
import sys
import time

ZOO = (
    "mlp", "mobilenet", "squeezenet_v1.1", "resnet-18", "resnet-50", "resnet-152", "inception_v3",
    "resnet3d-18",
)  # fmt: skip


def one(name: str) -> None:
    """Compile a network and print its row."""
    import tilework as tw
    from tasks.estimate import compile_time
    from tasks.network import load_network

    net = load_network(name)
    target = tw.Target("llvm -mcpu=native")
    tasks, _ = tw.extract_tasks(net, target)
    span = compile_time(tasks, sum(a.nbytes for a in net.constants.values()))
    assert span is not None
    began = time.process_time()
    tw.compile(net, target)
    took = time.process_time() - began
    inside = "" if span.least <= took <= span.most else "  outside"
    print(
        f"| {name} | {len(tasks)} | {span.likely:.1f} ({span.least:.1f} to {span.most:.1f}) "
        f"| {took:.1f} |{inside}",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        print("| network | tasks | estimate, s | taken, s |\n|---|---|---|---|", flush=True)
        for network in sys.argv[1:] or ZOO:
            subprocess.run([sys.executable, __file__, "--one", network], check=True)
