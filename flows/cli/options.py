"""Arguments and options that several commands share, with one wording."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

import typer

from tasks.network import Precision as NetworkPrecision


class _Lines(logging.Handler):
    """A record is a line; where stderr goes is asked each time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        typer.secho(f"{record.levelname.lower()}: {record.getMessage()}", dim=True, err=True)


_LINES = _Lines()


def show_log(wanted: bool) -> bool:
    """Show what the engine notes beside its results, such as a pass that was left out."""
    log = logging.getLogger("tilework")
    log.removeHandler(_LINES)
    if wanted:
        log.addHandler(_LINES)
        log.setLevel(logging.INFO)
    return wanted


Network = Annotated[
    str, typer.Argument(metavar="NET", help="A built-in network's name, or an ONNX file.")
]
TargetText = Annotated[
    str,
    typer.Option(
        "--target",
        help="Machine to tune for, such as 'llvm -mcpu=native' or 'cuda -model=a100'.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads of the network; default: all cores."),
]
Store = Annotated[
    str, typer.Option("--store", help="Where the records are: a directory or a URI (s3://...).")
]
Packages = Annotated[
    bool,
    typer.Option(
        "--packages/--no-packages",
        help="Also use installed and shipped packages of best schedules, after the store.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Same seed and records: same candidates.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Batch size of a built-in network.")]
Layout = Annotated[
    Literal["NHWC", "NCHW", "NDHWC", "NCDHW"],
    typer.Option(
        "--layout",
        help="Input layout of a built-in network (over video, NHWC is NDHWC); kernels use NHWC.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1,3,224,224",
        help="Shape of an ONNX file's input, or the extent of a symbol: a number (batch=4), or a "
        "range and typical values (seq=1..512:16,64,128) for a network of any; any: a usual range "
        "for each symbol. Repeatable.",
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="NAME=1",
        help="Value of an ONNX file's input that decides shapes within, which becomes a constant: "
        "a number, true or false, or several with commas. Repeatable.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict/--no-strict",
        help="Refuse an ONNX file with operators that cannot be compiled, which ONNX Runtime runs "
        "otherwise, if it is installed.",
    ),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        help="Write new positions of a cache behind those that are there: outputs that continue "
        "an input along an extent with a range share its memory.",
    ),
]
Precision = Annotated[
    NetworkPrecision,
    typer.Option(
        "--precision",
        help="Weights and values between kernels: bf16 (CPUs with AVX512_BF16; GPUs), f16 (GPUs); "
        "tf32 (GPUs) rounds factors only. Sums are float32. int8: quantised by ONNX "
        "Runtime; int4: weights of matrix products alone.",
    ),
]
Calibrate = Annotated[
    str,
    typer.Option(
        "--calibrate",
        metavar="FILE.npz",
        help="Samples for --precision int8 and int4; see `tilework quantize`. Default: random.",
    ),
]
Sparse = Annotated[
    str,
    typer.Option(
        "--sparse",
        metavar="SHARE",
        help="Block-sparse weights: prune this share of the blocks, such as 0.85; 'own': those of "
        "a pruned network.",
    ),
]
Block = Annotated[
    str,
    typer.Option("--block", metavar="RxC", help="Rows x columns of --sparse's blocks; or 16x1."),
]
MinGain = Annotated[
    float | None,
    typer.Option(
        "--min-gain",
        min=0.0,
        max=0.99,
        help="Stop when a round promises less of the latency; 0.01 is 1 %.",
    ),
]
Extend = Annotated[
    bool, typer.Option("--extend", help="Spend the budget on top of what was spent before.")
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="champion|none|NAME",
        help="Cost model to begin with; see `tilework model list`.",
    ),
]
Prefect = Annotated[
    bool | None,
    typer.Option(
        "--prefect/--no-prefect",
        help="Run as a Prefect flow; default: if a configured server answers.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        callback=show_log,
        help="Show the engine's log, such as a rewriting that failed and was left out.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File for the compiled module; default: NET.tw here; '': it is not kept.",
    ),
]

DEFAULT_TARGET = "llvm -mcpu=native"
DEFAULT_STORE = "records"
