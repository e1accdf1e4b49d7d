"""``tilework doctor``: what this machine is, and whether everything needed is there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flows.cli import options
from flows.cli.output import console, print_json, table

_LIBRARIES = (
    "tilework", "numpy", "llvmlite", "xgboost", "pandas", "pyarrow", "onnx", "prefect", "fastapi",
    "sqlalchemy", "matplotlib", "onnxruntime", "openvino",
)  # fmt: skip


def doctor(json: options.Json = False) -> None:
    """Describe this machine and installation; the first lines of a good problem report."""
    document = examine()
    if json:
        print_json(document)
        return
    out = console()
    for title, facts in document.items():
        out.print(table([title, ""], list(facts.items())))


def examine() -> dict[str, dict[str, Any]]:
    """Everything that `doctor` shows, by heading."""
    return {"Machine": _machine(), "Libraries": _libraries(), "Prefect": _prefect()}


def _machine() -> dict[str, Any]:
    import platform

    from tilework.measure.records import device_name
    from tilework.target import Target

    target = Target("llvm -mcpu=native")
    wanted = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bf16", "avx512vnni", "amx-tile")
    return {
        "CPU": device_name(),
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
    from tilework.codegen import openmp_runtime
    from tilework.errors import ModuleError

    try:
        return openmp_runtime()
    except ModuleError as error:
        return f"missing: {error}"


def _peak() -> str:
    from tilework.measure.peak import fma_peak_gflops

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
