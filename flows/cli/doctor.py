"""``tilework doctor``: what this machine is, and whether everything needed is there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from flows.cli import options
from flows.cli.cache import kept_files, state_of
from flows.cli.output import console, print_json, table
from flows.numbers import latency

_LIBRARIES = (
    "tilework", "numpy", "llvmlite", "xgboost", "pandas", "pyarrow", "onnx", "prefect", "fastapi",
    "sqlalchemy", "matplotlib", "onnxruntime", "openvino", "cupy-cuda12x", "cupy-cuda13x",
    "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "ziglang",
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
        "GPU": _gpu(),
        "Analytic model": _parameters(measure),
        "Kept": _kept(),
        "Libraries": _libraries(),
        "Prefect": _prefect(),
    }


def _parameters(again: bool) -> dict[str, Any]:
    """The measured parameters of this machine; measured now if they never were."""
    from flows.cli.device import held
    from tilework.target import Target
    from tilework.target.hardware import hardware_of

    target = Target()
    with held(target, "doctor"):
        return dict(hardware_of(target).calibrate(target, again))


def _machine() -> dict[str, Any]:
    import platform

    from tilework.target import Target
    from tilework.target.hardware import hardware_of
    from tilework.target.host import processor_name
    from tilework.target.identity import identity_of

    target = Target()
    return {
        "CPU": processor_name(),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "target": str(target),
        **hardware_of(target).describe(target),
        "speed at rest": f"calibration loop takes {latency(identity_of(target).calibration_s)}",
    }


def _gpu() -> dict[str, str]:
    """The CUDA device that is here, or in one line why there is none."""
    from tilework.errors import TileworkError
    from tilework.target import Target
    from tilework.target.hardware import hardware_of

    try:
        target = Target("cuda -arch=native")
        return {"target": str(target), **hardware_of(target).describe(target)}
    except TileworkError as error:
        return {"CUDA": str(error)}


def _kept() -> dict[str, str]:
    kept = {name: state_of(files) for name, files in kept_files().items()}
    return kept or {"nothing": "TILEWORK_CACHE is off"}


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
    return {"server": f"{server.shown} {state}"}
