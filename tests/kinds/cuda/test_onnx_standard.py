"""Standard tests of the `onnx` package on an emulated GPU: every fortieth, and some by name."""

from __future__ import annotations

import pytest

from tests.backend.cases import included, run

TARGET = "cuda -model=a100 -run=emulated"
_NAMED = (
    "attention_4d_gqa", "argmax_negative_axis_keepdims_random", "convtranspose_group_2",
    "averagepool_2d_pads_count_include_pad", "gather_elements_negative_indices",
    "layer_normalization_3d_axis1_epsilon",
    "mod_int64_fmod", "resize_upsample_scales_cubic", "scatter_elements_with_duplicate_indices",
    "softmax_large_number", "top_k_uint64",
)  # fmt: skip
pytestmark = [pytest.mark.cuda_full, pytest.mark.usefixtures("needs_compiler")]


@pytest.fixture(autouse=True)
def _models_folder(tmp_path, monkeypatch):
    """The package keeps data of its own under this folder."""
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))


@pytest.mark.parametrize("part", range(4))
def test_models_of_the_standard(part: int) -> None:
    small = [n for n in included() if "_" in n and not n.startswith("inception")]  # no networks
    for name in sorted({*small[::40], *_NAMED})[part::4]:
        run(name, target=TARGET)
