"""The standard tests of the `onnx` package that are left out, and why.

Patterns are regular expressions that match a test's whole name, without ``test_`` and ``_cpu``.
Every excluded test is run all the same, and must end in one of Tilework's own errors.
"""

from __future__ import annotations

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
        r"range_.*_expanded",  # ONNX defines Range by a loop
        r"scan.*",
    ),
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
    "random numbers": (r"bernoulli.*",),
    "training: optimisers, gradients, dropout and batch norm in training mode": (
        r"adagrad.*",
        r"adam.*",
        r"batchnorm_.*_training_mode",
        r"gradient_.*",
        r"momentum.*",
        r"nesterov_.*",
        r"training_dropout.*",
    ),
    "operators of other domains: classical machine learning": (r"ai_onnx_ml_.*",),
    "decoding of image files": (r"image_decoder_.*",),
}
