"""Operators that cannot be compiled, and why."""

from __future__ import annotations

_TEXT = "texts are not supported"
_DATA = "the shape of its result depends on data"
_TRAINING = "training is not supported"
_SEARCH = "loops of a search for texts are not supported; export one step of the decoder"
_BEAMS = "caches for a beam search are not supported; export the decoder without it"
_GPU = "ONNX Runtime writes it for GPUs alone; optimise the model for a CPU"
_MACHINE = (
    "a layout for one machine; save the optimised model at ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL"
)

NCHWC = "com.microsoft.nchwc"
"""Domain of the operators that ONNX Runtime writes last, for the machine that it runs on."""

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        _TEXT,
    ),
    **dict.fromkeys(("Compress", "NonMaxSuppression", "NonZero", "Unique"), _DATA),
    **dict.fromkeys(("Adagrad", "Adam", "Gradient", "Momentum"), _TRAINING),
    "ImageDecoder": "image files are not supported",
}  # fmt: skip

_MICROSOFT: dict[str, str] = {
    **dict.fromkeys(("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _SEARCH),
    **dict.fromkeys(("DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention"), _BEAMS),
    **dict.fromkeys(
        (
            "DecoderAttention", "GatedRelativePositionBias", "LongformerAttention",
            "PackedAttention", "PackedMultiHeadAttention", "PagedAttention",
            "RelativePositionBias", "RemovePadding", "RestorePadding",
        ),
        _GPU,
    ),
}  # fmt: skip


def refusal(domain: str, op: str) -> str:
    """Why an operator is refused; an empty text where nothing is to be said."""
    if domain == NCHWC:
        return _MACHINE
    return (REFUSED if domain in ("", "ai.onnx") else _MICROSOFT).get(op, "")
