"""Networks as shared libraries, run from C, beside the modules that they were made of.

    python benchmarks/library.py [NET ...] [--threads 1,2] [--folder DIR] [--build]
                                 [--seconds S] [--sample-ms MS] [--json FILE]

NET is a name of the zoo or an ONNX file; by default the whole zoo. Each is compiled once, to
DIR/NET.tw and DIR/NET.so (``--build`` stops there, so that a later call only measures). Then a C
program opens the library and runs it, in turns with the module's bound call in this process, on
the same input and with the same number of threads; the ratio is the median over pairs of samples.
Outputs are compared bit for bit. The library's file is first taken out of the system's cache and
opened by a process that ends (cold: ``dlopen`` and making a context); load and create are those of
a second process. Memory is what is resident after a run, less what the process had before; so is
what a second context adds. At last one library is loaded and
unloaded a thousand times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

import tilework as tw
from flows.cli.reading import used_by
from tasks.network import load_network, network_label
from tilework.graph.zoo.catalogue import NETWORKS
from tilework.kinds.cpu.library.linker import find_linker
from tilework.runtime import Module
from tilework.target.host import HOST_PLATFORM

DRIVER = Path(__file__).with_name("_library.c")


@dataclass(frozen=True)
class Row:
    """One library at one number of threads; times in milliseconds, memory in bytes."""

    name: str
    threads: int
    equal: bool
    module_ms: float
    library_ms: float
    ratio: float
    cold_ms: float
    load_ms: float
    create_ms: float
    first_run_ms: float
    weights: int
    resident: int
    second_context: int
    activations: int


class Driver:
    """The C program, with a library open or not."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={}
        )

    def ask(self, *words: object) -> list[float]:
        """Numbers of the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer or answer.startswith("error"):
            raise SystemExit(f"{words[0]}: {answer.strip() or 'the program died'}")
        return [float(w) for w in answer.split() if w[0].isdigit()]

    def close(self) -> None:
        """End the program."""
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


def main() -> None:
    """Build, measure, print."""
    args = _arguments()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="libraries-"))
    folder.mkdir(parents=True, exist_ok=True)
    names = args.nets or list(NETWORKS)
    for name in names:
        _build(name, folder, args.target, args.store)
    program = _program(folder, network_label(names[0]))
    if args.build:
        return
    rows = []
    print(
        f"{'network':18} threads  equal  module ms  from C ms  ratio    cold   load  create   "
        "first   weights  resident  2nd context"
    )
    for name in names:
        for threads in map(int, args.threads.split(",")):
            row = _measure(folder, network_label(name), program, threads, args)
            rows.append(row)
            print(_line(row), flush=True)
    for threads in sorted({row.threads for row in rows}):
        logs = [np.log(row.ratio) for row in rows if row.threads == threads]
        worst = max(row.ratio for row in rows if row.threads == threads)
        print(
            f"{threads} thread(s): geometric mean {np.exp(np.mean(logs)):.4f}, worst {worst:.4f}"
        )
    _loads(folder, network_label(names[-1]), program)
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="*", metavar="NET")
    parser.add_argument("--target", default="llvm -mcpu=native")
    parser.add_argument("--store", default="records")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--folder", default="", help="where libraries are kept for another call")
    parser.add_argument("--build", action="store_true", help="measure nothing")
    parser.add_argument("--seconds", type=float, default=6, help="measured for each row")
    parser.add_argument("--sample-ms", type=float, default=50)
    parser.add_argument("--json", default="")
    return parser.parse_args()


def _build(name: str, folder: Path, target: str, store: str) -> None:
    label = network_label(name)
    if (folder / f"{label}.so").exists():
        return
    begin = time.perf_counter()
    module = tw.compile(load_network(name), target, records=used_by(store, packages=True))
    module.save(folder / f"{label}.tw")
    library = tw.write_library(module, folder / f"{label}.so", header=folder / f"{label}.h")
    print(f"{label}: {library.nbytes / 2**20:.1f} MiB in {time.perf_counter() - begin:.1f} s")


def _program(folder: Path, label: str) -> Path:
    """The C program, compiled with the header of any network."""
    (folder / "network.h").write_text((folder / f"{label}.h").read_text())
    command = [*find_linker(HOST_PLATFORM).command, "-O2", f"-I{folder}", DRIVER, "-ldl"]
    subprocess.run([*command, "-o", folder / "driver"], check=True)
    return folder / "driver"


def _measure(
    folder: Path, label: str, program: Path, threads: int, args: argparse.Namespace
) -> Row:
    module = tw.load_module(folder / f"{label}.tw")
    call = module.bind(threads=threads)
    rng = np.random.default_rng(0)
    for array in call.inputs.values():
        array[...] = rng.standard_normal(array.shape)
    given, written = folder / "inputs.bin", folder / "outputs.bin"
    given.write_bytes(b"".join(a.tobytes() for a in call.inputs.values()))
    wanted = b"".join(a.tobytes() for a in call())

    cold = _cold_ms(folder / f"{label}.so", program, threads, given)
    driver = Driver(program)
    before = sum(driver.ask("memory"))
    load, create, first = driver.ask("open", folder / f"{label}.so", threads, given)
    driver.ask("outputs", written)
    equal = written.read_bytes() == wanted
    after = sum(driver.ask("memory"))
    ratio, mine, theirs = _in_turns(call, driver, args)
    between = sum(driver.ask("memory"))
    driver.ask("context")
    second = sum(driver.ask("memory")) - between
    driver.close()
    image = module.image
    return Row(
        label, threads, equal, mine, theirs, ratio, cold, load, create, first,
        image.constants.nbytes, int(after - before), int(second),
        image.arena_bytes + image.workspace_bytes(threads),
    )  # fmt: skip


def _cold_ms(library: Path, program: Path, threads: int, inputs: Path) -> float:
    """Milliseconds to load a library that has to be read from the disk, and to make a context."""
    with library.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    driver = Driver(program)
    load, create, _ = driver.ask("open", library, threads, inputs)
    driver.close()
    return load + create


def _in_turns(
    call: object, driver: Driver, args: argparse.Namespace
) -> tuple[float, float, float]:
    """Median ratio of pairs, and the medians of both in milliseconds."""
    assert callable(call)

    def module_ms(count: int) -> float:
        begin = time.perf_counter_ns()
        for _ in range(count):
            call()
        return (time.perf_counter_ns() - begin) / count * 1e-6

    def library_ms(count: int) -> float:
        return driver.ask("run", count)[0] / count * 1e-6

    module_ms(2), library_ms(2)
    each = module_ms(2)
    count = max(1, round(args.sample_ms / each))
    pairs = []
    for i in range(max(6, round(args.seconds / (2e-3 * count * each)))):
        if i % 2:
            theirs, mine = library_ms(count), module_ms(count)
        else:
            mine, theirs = module_ms(count), library_ms(count)
        pairs.append((mine, theirs))
    ratio = median(theirs / mine for mine, theirs in pairs)
    return ratio, median(p[0] for p in pairs), median(p[1] for p in pairs)


def _line(row: Row) -> str:
    mib = 2.0**-20
    return (
        f"{row.name:18} {row.threads:7}  {'yes' if row.equal else 'NO':5}  {row.module_ms:9.3f}  "
        f"{row.library_ms:9.3f}  {row.ratio:.3f}  {row.cold_ms:6.1f}  {row.load_ms:5.1f}  "
        f"{row.create_ms:6.1f}  "
        f"{row.first_run_ms:6.1f}  {row.weights * mib:8.1f}  {row.resident * mib:8.1f}  "
        f"{row.second_context * mib:6.1f} of {row.activations * mib:.1f}"
    )


def _loads(folder: Path, label: str, program: Path) -> None:
    """A thousand loads and unloads, and what they leave."""
    module = Module(tw.load_module(folder / f"{label}.tw").image)
    driver = Driver(program)
    inputs = folder / "inputs.bin"
    inputs.write_bytes(b"\0" * sum(v.nbytes for v in module.inputs.values()))
    driver.ask("open", folder / f"{label}.so", 1, inputs)
    # of a copy, which no other handle keeps open
    copy = folder / "again.so"
    copy.write_bytes((folder / f"{label}.so").read_bytes())
    driver.ask("loads", copy, 100)
    before = driver.ask("memory")
    driver.ask("loads", copy, 1000)
    after = driver.ask("memory")
    copy.unlink()
    driver.close()
    print(
        f"1,000 loads, runs and unloads of {label}: memory of the process "
        f"{before[0] / 2**20:.2f} -> {after[0] / 2**20:.2f} MiB, of files "
        f"{before[1] / 2**20:.2f} -> {after[1] / 2**20:.2f} MiB"
    )


if __name__ == "__main__":
    main()
