"""CPU seconds that LLVM takes for the code of networks, by the passes that it leaves out.

    python benchmarks/passes.py resnet-18 mobilenet ... [--rounds 2]

Every module that compiling a network of the zoo hands to LLVM is assembled again by one thread:
with all passes, without those that are left out for 256-bit vectors, and without those for 512-bit
ones.
"""

from __future__ import annotations

import argparse
import time
from unittest import mock

import tilework as tw
from tilework.kinds.cpu import build, passes
from tilework.kinds.cpu.llvm.assembler import emit_object

WAYS = {"nothing": (), "as for 256 bits": passes.LEFT_OUT[256], "as for 512": passes.LEFT_OUT[512]}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    for name in args.networks:
        given: list[tuple] = []

        def seen(text, target, *, calls_only=False, given=given):
            given.append((text, target, calls_only))
            return emit_object(text, target, calls_only=calls_only)

        with mock.patch.object(build, "emit_object", seen):
            build._OBJECTS.clear()
            tw.compile(tw.zoo.get(name), "llvm -num-cores=1")
        for _ in range(args.rounds):
            told = []
            for way, left_out in WAYS.items():
                bits = given[0][1].vector_bits
                with mock.patch.dict(passes.LEFT_OUT, {bits: left_out}):
                    began = time.process_time()
                    for text, target, calls_only in given:
                        emit_object(text, target, calls_only=calls_only)
                    told.append(f"{way} {time.process_time() - began:.2f}")
            print(f"{name:16} {len(given)} modules, left out:", ", ".join(told), flush=True)


if __name__ == "__main__":
    main()
