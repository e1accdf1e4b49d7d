"""``tilework doctor``: what this machine is, and whether everything needed is there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from flows.cli import options
from flows.cli.output import console, print_json, table

_LIBRARIES = (
    "tilework", "numpy", "llvmlite", "xgboost", "pandas", "pyarrow", "onnx", "prefect", "fastapi",
    "sqlalchemy", "matplotlib", "onnxruntime", "openvino",
)  # fmt: skip


def doctor(
    json: options.Json = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the machine again, even if it was before.")
    ] = False,
) -> None:
    """Describe this machine and installation; the first lines of a good problem report.

    The first run on a machine measures what the analytic model needs to know (clock, multiply-adds
    and loads per cycle, bandwidth of each cache, cost of starting threads) in about a second, and
    keeps it in the user's cache folder. Nothing else should run meanwhile.
    """
    document = examine(measure)
    if json:
        print_json(document)
        return
    out = console()
    for title, facts in document.items():
        out.print(table([title, ""], list(facts.items())))


def examine(measure: bool = False) -> dict[str, dict[str, Any]]:
    """Everything that `doctor` shows, by heading; ``measure``: the parameters once more."""
    return {
        "Machine": _machine(),
        "Analytic model": _parameters(measure),
        "Libraries": _libraries(),
        "Prefect": _prefect(),
    }


def _parameters(again: bool) -> dict[str, Any]:
    """The measured parameters of this machine; measured now if they never were."""
    from tilework.kinds.cpu.calibrate.machine import measure_machine
    from tilework.kinds.cpu.features import Machine
    from tilework.kinds.cpu.parameters import default_path, measured, save
    from tilework.target import Target

    target = Target("llvm -mcpu=native")
    path = str(default_path())
    if again or measured(target) is None:
        try:
            save(target, measure_machine(target))
        except OSError as error:
            path = f"cannot be written: {path} ({error}); typical numbers are used"
    machine, found = Machine.of(target), measured(target)
    return {
        "clock": f"{machine.clock_hz * 1e-9:.2f} GHz",
        "per cycle": f"{machine.fma_ports:.2f} vector multiply-adds, {machine.load_ports:.2f} "
        f"vector loads, {machine.broadcast_ports:.2f} broadcasts",
        "multiply-add latency": f"{machine.latency:.1f} cycles",
        "bytes per cycle": f"L2 {machine.l2_rate:.0f}, L3 {machine.l3_rate:.0f}, memory "
        f"{machine.memory_rate:.1f}, each of {machine.cores} threads",
        "starting threads": f"{machine.fork_cycles:.0f} cycles",
        "measured": found.measured_at if found else "never",
        "kept in": path,
    }


def _machine() -> dict[str, Any]:
    import platform

    from tilework.target import Target
    from tilework.target.host import processor_name

    target = Target("llvm -mcpu=native")
    wanted = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bf16", "avx512vnni", "amx-tile")
    return {
        "CPU": processor_name(),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "target": str(target),
        "vector registers": f"{target.num_vector_registers} of {target.vector_bits} bits",
        "features": " ".join(f for f in wanted if f in target.features),
        "caches": f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB, "
        f"L3 {target.l3_bytes >> 10} KiB",
        "OpenMP runtime": _openmp(),
        "FMA peak, 1 thread": _peak(),
    }


def _openmp() -> str:
    from tilework.errors import ModuleError
    from tilework.kinds.cpu.object_code import openmp_runtime

    try:
        return openmp_runtime()
    except ModuleError as error:
        return f"missing: {error}"


def _peak() -> str:
    from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops

    return f"{fma_peak_gflops():.0f} GFLOPS, measured now"


def _libraries() -> dict[str, str]:
    return {name: _version(name) for name in _LIBRARIES}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _prefect() -> dict[str, str]:
    from flows.server import configured_server

    server = configured_server()
    if not server.url:
        return {"server": "none configured: runs go without one (docs/prefect.md)"}
    state = "answers" if server.reachable else f"does not answer ({server.detail})"
    return {"server": f"{server.url} {state}"}
