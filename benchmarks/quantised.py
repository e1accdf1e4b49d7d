"""Networks of 8 and 4 bits: our time beside that of ONNX Runtime and OpenVINO.

    python benchmarks/quantised.py [NET ...] [--forms u8s8,u8s7,u8u8,s8s8] [--threads 1,2]
                                   [--peers onnxruntime,openvino] [--seconds S] [--mattr=-FEATURE]
    python benchmarks/quantised.py minilm bert --forms u8s8,bf16
    python benchmarks/quantised.py decoder-1 decoder-128 [--forms int4/32,...] [--threads 1,2]

NET is a name of the zoo (random weights), by default ResNet-18 and MobileNet, or an ONNX file
whose inputs are floats. ONNX Runtime's tool folds its batch norms and quantises it, with
calibration on random numbers, to ``QuantizeLinear`` and ``DequantizeLinear``: data and weights as
uint8 and int8 (weights of a scale a channel), both uint8, or both int8; of u8s7 weights have 7
bits (``reduce_range``). All engines run that file, and ours the float32 network before it as well,
on fixed buffers, in turns, at batch 1; our schedules are the draft's. ``minilm`` and ``bert`` are
encoders of these sizes on 128 states (`_encoder`); ``bf16`` is the float32 network computed so by
ours and OpenVINO. Features of ``--mattr`` are those that ours does without. Times are medians, a
ratio is the median over paired samples of our time divided by theirs.

``decoder-ROWS`` are layers of a decoder with weights of 4 bits on so many rows (`_decoder`), one
with the share of the bandwidth that bound calls have beside plain reads of the packed bytes, in
turns (`_reads`). Data are rounded to 8 bits at level 4;
``int4/32 level 4 bf16`` lets OpenVINO compute in bfloat16.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from _decoder import FORMS as DECODER_FORMS
from _decoder import decoder, packed_bytes
from _encoder import encoder
from _engines import compare
from _reads import share_of_bandwidth
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

import tilework as tw
from tasks.peers import require_peers
from tilework.graph import zoo
from tilework.graph.precision import Precision

_U8, _S8 = quantization.QuantType.QUInt8, quantization.QuantType.QInt8
FORMS = {"u8s8": (_U8, _S8), "u8s7": (_U8, _S8), "u8u8": (_U8, _U8), "s8s8": (_S8, _S8)}
ENCODERS = {"minilm": (6, 384, 12, 128), "bert": (12, 768, 12, 128)}
_IMAGES = 2
_IN_BF16 = " bf16"
"""After the name of a decoder's form."""


class _Images(quantization.CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto) -> None:
        rng = np.random.default_rng(0)
        shapes = {
            x.name: [d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input
        }
        draws = [
            {name: rng.standard_normal(n).astype(np.float32) for name, n in shapes.items()}
            for _ in range(_IMAGES)
        ]
        self.rows: Iterator[dict[str, np.ndarray]] = iter(draws)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rows, None)


def quantised(name: str, forms: list[str], bfloat16: bool) -> dict[str, onnx.ModelProto]:
    """The network in float32, as the tool prepares it, and in each of the forms."""
    with tempfile.TemporaryDirectory() as folder:
        plain, prepared, path = (Path(folder, f"{n}.onnx") for n in ("plain", "prepared", "q"))
        if name in ENCODERS:
            onnx.save(encoder(*ENCODERS[name]), plain)
        elif name.endswith(".onnx"):
            plain = Path(name)
        else:
            zoo.get(name, layout="NCHW").to_onnx(plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        made = {"float32": onnx.load(prepared)}
        for form in forms:
            data, weights = FORMS[form]
            quantization.quantize_static(
                prepared,
                path,
                _Images(made["float32"]),
                quant_format=quantization.QuantFormat.QDQ,
                activation_type=data,
                weight_type=weights,
                reduce_range=form == "u8s7",
                per_channel=weights is _S8,
            )
            made[form] = onnx.load(path)
    return made | ({"bf16": made["float32"]} if bfloat16 else {})


def models_of(name: str, forms: list[str]) -> dict[str, onnx.ModelProto]:
    """A network's models, by form; forms that it does not have are left out."""
    kind, _, rows = name.rpartition("-")
    if kind == "decoder":
        plain = {form: form.removesuffix(_IN_BF16) for form in forms}
        return {f: decoder(int(rows), p) for f, p in plain.items() if p in DECODER_FORMS}
    return quantised(name, [form for form in forms if form in FORMS], "bf16" in forms)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="networks of 8 and 4 bits")
    parser.add_argument("nets", nargs="*", default=["resnet-18", "mobilenet"])
    parser.add_argument("--forms", default=",".join((*FORMS, *DECODER_FORMS)))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default="onnxruntime,openvino")
    parser.add_argument("--mattr", default="", help="of our target")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each comparison")
    args = parser.parse_args()
    peers = [p for p in args.peers.split(",") if p]
    require_peers(peers)
    logging.disable(logging.WARNING)
    print(f"| network | threads | ours, ms | {' | '.join(f'{p}, ms (ratio)' for p in peers)} |")
    print("|" + " --- |" * (3 + len(peers)))
    for name in args.nets:
        models = models_of(name, args.forms.split(","))
        for threads in map(int, args.threads.split(",")):
            for form, model in models.items():
                mattr = f" -mattr={args.mattr}" if args.mattr else ""
                target = tw.Target(f"llvm -num-cores={threads}{mattr}")
                precision: Precision = "bf16" if form.endswith("bf16") else "f32"
                result = compare(
                    name, {"NCHW": model}, target, peers, None, args.seconds, precision=precision
                )
                ours, *rest = result.rows
                cells = [f"{r.median_us / 1e3:.2f} ({r.ratio:.2f})" for r in rest]
                time = f"{ours.median_us / 1e3:.2f}"
                if name == "decoder-1":
                    module = tw.compile(tw.from_onnx(model), target)
                    took, share = share_of_bandwidth(module, packed_bytes(model), args.seconds)
                    cells.append(f"bound {1e3 * took:.2f}, {share:.2f} of the bandwidth")
                print(f"| {name} {form} | {threads} | {time} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
