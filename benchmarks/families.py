"""What a search over ranges brings at each shape: a module with its records beside one without.

    tilework tune MODEL.onnx --shape 'seq=1..512:16,64,128' --threads 1 --store STORE
    python benchmarks/families.py MODEL.onnx STORE --shape 'seq=1..512:16,64,128' --at 1,7,64

Both are compiled once, for the ranges, and timed in turns where the symbols that have a range have
each of the given values, or their ends where these are outside.
"""

from __future__ import annotations

import argparse
from statistics import geometric_mean

import tilework as tw
from storage import RecordStore
from tasks.engines import points_of, random_inputs, time_engines
from tasks.network import load_network
from tilework.runtime.samples import paired_ratio


def main() -> None:
    """Times the two modules, a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("store")
    parser.add_argument("--shape", action="append", default=[], help="ranges, as `tilework tune`")
    parser.add_argument("--at", default="1,7,16,64,128,512", help="values of the symbols")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each module and shape")
    args = parser.parse_args()
    net = load_network(args.model, shapes=args.shape)
    target = tw.Target(f"llvm -mcpu=native -num-cores={args.threads}")
    modules = {
        "tuned": tw.compile(net, target, records=RecordStore(args.store)),
        "untuned": tw.compile(net, target),
    }
    symbols = list(points_of(net)[0])
    ratios = []
    for value in map(int, args.at.split(",")):
        at = {symbol: min(max(value, symbol.low), symbol.high) for symbol in symbols}
        samples = time_engines(modules, random_inputs(net, at=at), args.seconds)
        ratios.append(paired_ratio(samples["tuned"], samples["untuned"]))
        where = ", ".join(f"{symbol.name} = {n}" for symbol, n in at.items())
        times = ", ".join(f"{name} {1e3 * s.median:.3f} ms" for name, s in samples.items())
        print(f"{where}: {times}, ratio {ratios[-1]:.3f}", flush=True)
    print(f"geomean {geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
