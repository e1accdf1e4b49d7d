"""The standard tests of the `onnx` package that are left out, and why.

Patterns are regular expressions that match a test's whole name, without ``test_`` and ``_cpu``.
Every excluded test is run all the same, and must end in one of Tilework's own errors.
"""

from __future__ import annotations

_SMALL = "(FLOAT8\\w+|FLOAT4\\w+|U?INT[24])"

EXCLUDED: dict[str, tuple[str, ...]] = {
    "inputs and outputs that are sequences or optional values: a module's are tensors": (
        r"sequence_(map|insert_at)_.*",
        r"split_to_sequence_.*",
        r"identity_(sequence|opt)",
        r"optional_get_element_(optional_.*|sequence)",
        r"optional_has_element_(empty_optional|optional|tensor)_input",
        r"if_(opt|seq)",
        r"loop13_seq",
        r"loop16_seq_none",
    ),
    "a Scan over batches, of operator set 8": (r"scan_sum",),
    "texts": (
        r"equal_string.*",
        r"regex_.*",
        r"string_.*",
        r"strnorm.*",
        r"tfidfvectorizer_.*",
    ),
    "the shape of the result depends on data": (
        r"compress_.*",
        r"nonmaxsuppression_.*",
        r"nonzero_example",
        r"unique_.*",
    ),
    "element types below a byte, and 8-bit floating point": (
        rf"cast(like)?_(no_saturate_)?{_SMALL}_to_.*",
        rf"cast(like)?_(no_saturate_)?(FLOAT|FLOAT16|U?INT8)_to_{_SMALL}(_expanded)?",
        r"cast_e8m0_.*",
        r"dequantizelinear_(e[45]m.*|float4.*|u?int[24])",
        r"quantizelinear_(e[45]m.*|float4.*|u?int[24])",
    ),
    "random numbers without a seed": (r"bernoulli(_double)?(_expanded)?",),
    "training: optimisers, gradients, dropout in training mode": (
        r"adagrad.*",
        r"adam.*",
        r"gradient_.*",
        r"momentum.*",
        r"nesterov_.*",
        r"training_dropout.*",
    ),
    "operators of other domains: classical machine learning, previews": (
        r"ai_onnx_ml_.*",
        r"flexattention(?!.*expanded).*",
    ),
    "decoding of image files": (r"image_decoder_.*",),
    "the bits of floating-point numbers, computed when the network runs": (
        r"bitcast_(2d_|scalar_)?(float.*|int32_to_float32|int64_to_float64)",
    ),
}

# Tests of supported operators that do not pass. Half precision is computed in single and rounded
# once; the reference rounds after every step, and their results differ by 1.2e-3 of the value
# where the package allows 1e-3.
FAILING: tuple[str, ...] = (
    "attention_4d_causal_fp16",
    "attention_4d_causal_fp16_expanded",
)

# Tests of supported operators whose result is another one here.
OTHERWISE: dict[str, tuple[str, ...]] = {
    "what transforms back to zero is 2e-7 in the package's data, and 6e-16 here": (
        "dft_inverse",
        "dft_inverse_opset19",
    ),
    "a seed has other random numbers in each implementation": (
        "bernoulli_seed",
        "bernoulli_seed_expanded",
    ),
    "indices are those of the result, as in ONNX Runtime, and not of a smaller one within it": (
        "maxunpool_export_with_output_shape",
    ),
}
