"""The standard tests of the `onnx` package that are left out, and why.

Patterns are regular expressions that match a test's whole name, without ``test_`` and ``_cpu``.
Every excluded test is run all the same, and must end in one of Tilework's own errors.
"""

from __future__ import annotations

_SMALL = "(FLOAT8\\w+|FLOAT4\\w+|U?INT[24])"

EXCLUDED: dict[str, tuple[str, ...]] = {
    "sequences and optional values: a compiled network works on tensors": (
        r"sequence_.*",
        r"split_to_sequence_.*",
        r"identity_(sequence|opt)",
        r"optional_.*",
        r"if_(opt|seq)",
        r"loop13_seq",
        r"loop16_seq_none",
    ),
    "loops: a compiled network is a fixed list of kernels": (
        r"loop11",
        r"linear_attention_.*",  # defined by a Scan over time
        r"range_.*_expanded",  # defined by a Loop
        r"scan.*",
    ),
    "recurrent layers: loops over time": (r"(gru|lstm|rnn|simple_rnn)_.*",),
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
    "tensors without elements": (
        r"causal_conv_with_state_kernel_size_one.*",
        r"constantofshape_int_shape_zero",
        r"reduce_sum_empty_set_non_reduced_axis_zero",
        r"reshape_allowzero_reordered",
        r"shape_start_greater_than_end",
        r"slice_start_out_of_bounds",
        r"split_zero_size_splits_.*",
        r"(tril|triu)_zero",
    ),
    "element types below a byte, and 8-bit floating point": (
        rf"cast(like)?_(no_saturate_)?{_SMALL}_to_.*",
        rf"cast(like)?_(no_saturate_)?(FLOAT|FLOAT16|U?INT8)_to_{_SMALL}(_expanded)?",
        r"cast_e8m0_.*",
    ),
    "quantisation": (
        r"convinteger_.*",
        r"dequantizelinear.*",
        r"dynamicquantizelinear.*",
        r"qlinearconv",
        r"quantizelinear.*",
    ),
    "random numbers": (r"bernoulli.*",),
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
    "sampling at computed places": (
        r"(basic_)?deform_conv_.*",
        r"gridsample.*",
        r"roialign_.*",
    ),
    "signals: Fourier transforms, spectra": (
        r"dft.*",
        r"melweightmatrix",
        r"stft.*",
    ),
    "what undoes a MaxPool": (r"maxunpool_.*",),
    "operators that networks for inference hardly have": (
        r"bitcast_.*",
        r"det_.*",
        r"tensorscatter.*",
    ),
}

# Tests of supported operators that do not pass. Half precision is computed in single and rounded
# once; the reference rounds after every step, and their results differ by 1.2e-3 of the value
# where the package allows 1e-3.
FAILING: tuple[str, ...] = (
    "attention_4d_causal_fp16",
    "attention_4d_causal_fp16_expanded",
)
