"""Standard operators that cannot be compiled, and why."""

from __future__ import annotations

_LOOP = "loops cannot be compiled; unroll them when exporting"
_SEQUENCE = "sequences and optional values are not supported, only tensors"
_TEXT = "texts are not supported"
_DATA = "the shape of its result depends on data"
_RANDOM = "random numbers are not supported"
_TRAINING = "training is not supported"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("Loop", "Scan"), _LOOP),
    **dict.fromkeys(
        (
            "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
            "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
            "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
        ),
        _SEQUENCE,
    ),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        _TEXT,
    ),
    **dict.fromkeys(("Compress", "NonMaxSuppression", "NonZero", "Unique"), _DATA),
    **dict.fromkeys(
        (
            "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
            "RandomUniformLike",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(("Adagrad", "Adam", "Gradient", "Momentum"), _TRAINING),
    "ImageDecoder": "image files are not supported",
}  # fmt: skip
