"""Operators of ONNX Runtime that are functions of the standard's, as the standard has some itself.

Products of bytes by scales that a run finds, in one node: what its optimiser makes of a file that
`quantize_dynamic` wrote.
"""

from __future__ import annotations

from functools import cache

from tilework.graph.onnx.protos import FunctionProto, NodeProto

INPUTS = {
    "DynamicQuantizeMatMul": ("a", "b", "b_scale", "b_zero", "bias"),
    "MatMulIntegerToFloat": ("a", "b", "a_scale", "b_scale", "a_zero", "b_zero", "bias"),
}
"""Of each operator, all of the domain `com.microsoft`."""
_ONE = "one = Constant <value = int64[0] {}> ()"


def expansion(node: NodeProto) -> FunctionProto | None:
    """The function that a node of the domain ``com.microsoft`` calls; None if it calls none."""
    if node.domain != "com.microsoft" or node.op_type not in INPUTS:
        return None
    names = zip(INPUTS[node.op_type], node.input, strict=False)
    return _function(node.op_type, frozenset(name for name, given in names if given))


@cache
def _function(op: str, given: frozenset[str]) -> FunctionProto:
    """The function of an operator of which some inputs are given.

    Data have one scale and one zero point; weights may have one for each column.
    """
    from onnx import parser

    zero, zero_of_b = "zero", "b_zero" if "b_zero" in given else ""
    if op == "DynamicQuantizeMatMul":
        data = "bytes, scale, zero = DynamicQuantizeLinear(a)"
    else:
        data = f"bytes = Identity(a) {_ONE} scale = Reshape(a_scale, one)"
        if "a_zero" in given:
            data += " zero = Reshape(a_zero, one)"
        else:
            zero = ""
    end = "product = Mul(wide, both) y = Add(product, bias)"
    if "bias" not in given:
        end = "y = Mul(wide, both)"
    return parser.parse_function(
        '<domain: "com.microsoft", opset_import: ["" : 17]>'
        f" {op} ({', '.join(INPUTS[op])}) => (y) {{ {data}"
        f" sums = MatMulInteger(bytes, b, {zero}, {zero_of_b})"
        f" both = Mul(scale, b_scale) wide = Cast <to = 1> (sums) {end} }}"
    )
