"""``tilework quantize``: a network of 8 bits from one of float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli import options
from flows.cli.output import console, print_json
from flows.numbers import plural, size

if TYPE_CHECKING:
    from tasks.quantise import Quantised


def quantize(
    network: options.Network,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write; default: NET.int8.onnx here.",
        ),
    ] = None,
    calibrate: Annotated[
        str,
        typer.Option(
            "--calibrate",
            metavar="FILE.npz",
            help="Samples of the inputs: an array for each, by name, in numpy.savez's form. "
            "Default: a few random ones, which say nothing of real data.",
        ),
    ] = "",
    scheme: Annotated[
        Literal["static", "dynamic"],
        typer.Option(
            "--scheme",
            help="static: ranges of data as on the samples. dynamic: computed in each run, in "
            "front of matrix products.",
        ),
    ] = "static",
    method: Annotated[
        Literal["minmax", "entropy", "percentile"],
        typer.Option("--method", help="How ranges follow from the samples."),
    ] = "minmax",
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="NODE", help="A node that stays in float32; repeatable."),
    ] = None,
    batch: options.Batch = 1,
    layout: options.Layout = "NHWC",
    shape: options.Shapes = None,
    json: options.Json = False,
) -> None:
    """Make a network of 8 bits from NET by ONNX Runtime's quantiser, and say what it lost.

    Both networks run on the samples: NET in float32, by ONNX Runtime, and the new one here. How
    far they are apart is printed; whether that is too far, only you can say.

    [bold]Examples[/]

      tilework quantize model.onnx --calibrate images.npz

      tilework quantize bert.onnx --scheme dynamic --shape batch=1 --shape seq=1..512

      tilework tune model.int8.onnx
    """
    from tasks.network import network_label
    from tasks.quantise import quantise
    from tasks.quantiser import QuantiseRequest

    place = output or f"{network_label(network)}.int8.onnx"
    quantised = quantise(
        QuantiseRequest(
            network, place, calibrate, scheme, method, tuple(keep or ()), batch, layout,
            tuple(shape or ()),
        )
    )  # fmt: skip
    if json:
        print_json(quantised)
        return
    for line in _lines(quantised, calibrate, scheme):
        console().print(line, markup=False)


def _lines(quantised: Quantised, calibrate: str, scheme: str) -> list[str]:
    """What is printed: the file, what is in 8 bits, and the loss."""
    kind = "random sample" if quantised.random else "sample"
    of = "" if quantised.random else f" of {calibrate}"
    seen = f"seen on {quantised.samples} {kind}{plural(quantised.samples)}{of}"
    ranges = "computed in each run" if scheme == "dynamic" else seen
    lines = [
        f"{quantised.narrow} of {quantised.products} convolutions and products in 8 bits; "
        f"ranges {ranges}",
        str(quantised.loss),
        f"Network: {quantised.output}, {size(quantised.after)} (before: {size(quantised.before)})",
    ]
    if quantised.random:
        lines.append("Random samples are unlike real data: --calibrate takes some of yours")
    return lines
