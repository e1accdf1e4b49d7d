"""Small models of many architectures of the package transformers, of fixed shapes.

They say whether an architecture opens, agrees and is made into good code. Weights are random, and
layers are few and narrow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model_set.export import SEED, Feeds, Model

_WORDS, _TOKENS, _PIXELS = 1000, 32, 224
_WIDE = {"hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4}
_USUAL = {**_WIDE, "intermediate_size": 512}
_TEXT = {**_USUAL, "vocab_size": _WORDS}
_FEW_KEYS = {**_TEXT, "num_key_value_heads": 2}
_BY_HEAD = {**_FEW_KEYS, "head_dim": 48}
Make = Callable[[], Tensor]


def _ids() -> Tensor:
    return torch.randint(5, _WORDS // 2, (1, _TOKENS))


def _image(pixels: int = _PIXELS) -> Tensor:
    return torch.randn(1, 3, pixels, pixels)


def _of(*shape: int) -> Make:
    return partial(torch.randn, *shape)


_TABLE: Mapping[str, tuple[str, str, Mapping[str, Any], Make]] = {
    "clip_vision": ("CLIPVisionModel", "CLIPVisionConfig", _USUAL, _image),
    "clip_text": ("CLIPTextModel", "CLIPTextConfig", _TEXT, _ids),
    "siglip": ("SiglipVisionModel", "SiglipVisionConfig", {**_USUAL, "image_size": 224}, _image),
    "dinov2": ("Dinov2Model", "Dinov2Config", {**_WIDE, "image_size": 224}, _image),
    "beit": ("BeitModel", "BeitConfig", _USUAL, _image),
    "deit": ("DeiTModel", "DeiTConfig", _USUAL, _image),
    "segformer": ("SegformerForSemanticSegmentation", "SegformerConfig", {}, partial(_image, 256)),
    "mobilevit": ("MobileViTModel", "MobileViTConfig", {}, partial(_image, 256)),
    "mobilenet_v2": ("MobileNetV2ForImageClassification", "MobileNetV2Config", {}, _image),
    "regnet": ("RegNetForImageClassification", "RegNetConfig", {}, _image),
    "bit": ("BitModel", "BitConfig", {}, _image),
    "cvt": ("CvtModel", "CvtConfig", {}, _image),
    "hiera": ("HieraModel", "HieraConfig", {}, _image),
    "poolformer": ("PoolFormerForImageClassification", "PoolFormerConfig", {}, _image),
    "levit": ("LevitModel", "LevitConfig", {}, _image),
    "pvt_v2": ("PvtV2Model", "PvtV2Config", {}, _image),
    "focalnet": ("FocalNetModel", "FocalNetConfig", {}, _image),
    "swinv2": (
        "Swinv2Model", "Swinv2Config", {"embed_dim": 48, "depths": [1, 1, 2, 1]},
        partial(_image, 256),
    ),
    "swin2sr": (
        "Swin2SRForImageSuperResolution", "Swin2SRConfig",
        {"embed_dim": 60, "depths": [2, 2], "num_heads": [6, 6]}, partial(_image, 64),
    ),
    "rt_detr": (
        "RTDetrForObjectDetection", "RTDetrConfig", {"num_queries": 100}, partial(_image, 320),
    ),
    "dpt": (
        "DPTForDepthEstimation", "DPTConfig",
        {
            **_USUAL, "num_hidden_layers": 4, "image_size": 224, "is_hybrid": False,
            "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [48, 96, 192, 192],
            "fusion_hidden_size": 64,
        },
        _image,
    ),
    "depth_anything": ("DepthAnythingForDepthEstimation", "DepthAnythingConfig", {}, _image),
    "sam_vision": (
        "SamVisionModel", "SamVisionConfig",
        {**_WIDE, "image_size": 512, "global_attn_indexes": [1], "mlp_dim": 512},
        partial(_image, 512),
    ),
    "vitdet": ("VitDetModel", "VitDetConfig", {**_WIDE, "image_size": 224}, _image),
    "owlv2": ("Owlv2VisionModel", "Owlv2VisionConfig", {**_USUAL, "image_size": 224}, _image),
    "timesformer": (
        "TimesformerModel", "TimesformerConfig", {**_USUAL, "num_frames": 4},
        _of(1, 4, 3, 224, 224),
    ),
    "roberta": ("RobertaModel", "RobertaConfig", _TEXT, _ids),
    "deberta_v2": (
        "DebertaV2Model", "DebertaV2Config",
        {
            **_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        },
        _ids,
    ),
    "electra": ("ElectraModel", "ElectraConfig", _TEXT, _ids),
    "mpnet": ("MPNetModel", "MPNetConfig", _TEXT, _ids),
    "modernbert": ("ModernBertModel", "ModernBertConfig", {**_TEXT, "pad_token_id": 0}, _ids),
    "fnet": (
        "FNetModel", "FNetConfig",
        {k: v for k, v in _TEXT.items() if k != "num_attention_heads"}, _ids,
    ),
    "bigbird": (
        "BigBirdModel", "BigBirdConfig", {**_TEXT, "attention_type": "original_full"}, _ids,
    ),
    "bart": (
        "BartModel", "BartConfig",
        {
            "vocab_size": _WORDS, "d_model": 192, "encoder_layers": 2, "decoder_layers": 2,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 512,
            "decoder_ffn_dim": 512,
        },
        _ids,
    ),
    "opt": (
        "OPTModel", "OPTConfig",
        {**_WIDE, "vocab_size": _WORDS, "ffn_dim": 512, "word_embed_proj_dim": 192}, _ids,
    ),
    "bloom": (
        "BloomModel", "BloomConfig",
        {"vocab_size": _WORDS, "hidden_size": 192, "n_layer": 2, "n_head": 4}, _ids,
    ),
    "falcon": ("FalconModel", "FalconConfig", {**_WIDE, "vocab_size": _WORDS}, _ids),
    "gpt_neox": ("GPTNeoXModel", "GPTNeoXConfig", _TEXT, _ids),
    "phi3": ("Phi3Model", "Phi3Config", {**_FEW_KEYS, "pad_token_id": 0}, _ids),
    "qwen2": ("Qwen2Model", "Qwen2Config", _FEW_KEYS, _ids),
    "qwen3": ("Qwen3Model", "Qwen3Config", _BY_HEAD, _ids),
    "gemma2": ("Gemma2Model", "Gemma2Config", _BY_HEAD, _ids),
    "gemma3": ("Gemma3TextModel", "Gemma3TextConfig", _BY_HEAD, _ids),
    "mistral": ("MistralModel", "MistralConfig", {**_FEW_KEYS, "sliding_window": 16}, _ids),
    "olmo2": ("Olmo2Model", "Olmo2Config", _TEXT, _ids),
    "mamba": (
        "MambaModel", "MambaConfig",
        {"vocab_size": _WORDS, "hidden_size": 192, "num_hidden_layers": 2}, _ids,
    ),
    "mamba2": (
        "Mamba2Model", "Mamba2Config",
        {
            "vocab_size": _WORDS, "hidden_size": 192, "num_hidden_layers": 1, "num_heads": 8,
            "head_dim": 48,
        },
        _ids,
    ),
    "wav2vec2": ("Wav2Vec2ForCTC", "Wav2Vec2Config", _TEXT, _of(1, 16000)),
    "hubert": ("HubertModel", "HubertConfig", _USUAL, _of(1, 16000)),
    "wavlm": ("WavLMModel", "WavLMConfig", _USUAL, _of(1, 16000)),
    "ast": ("ASTModel", "ASTConfig", _USUAL, _of(1, 1024, 128)),
    "sew": ("SEWModel", "SEWConfig", _TEXT, _of(1, 16000)),
    "hifigan": ("SpeechT5HifiGan", "SpeechT5HifiGanConfig", {}, _of(50, 80)),
    "perceiver": (
        "PerceiverModel", "PerceiverConfig",
        {
            "num_latents": 32, "d_latents": 96, "num_blocks": 1, "num_self_attends_per_block": 2,
            "d_model": 64, "num_self_attention_heads": 4, "num_cross_attention_heads": 4,
        },
        _of(1, 128, 64),
    ),
}  # fmt: skip


def _write(path: Path, row: tuple[str, str, Mapping[str, Any], Make]) -> Feeds:
    import onnx
    import transformers

    model, config, options, make = row
    torch.manual_seed(SEED)
    net = getattr(transformers, model)(getattr(transformers, config)(**options)).eval()
    net.config.use_cache = False
    x = make()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), str(path), dynamo=True, verbose=False, external_data=False)
    (given,) = onnx.load(str(path)).graph.input
    return {given.name: x.numpy()}


MODELS = tuple(
    Model(f"small_{name}", f"{row[0]}, small", partial(_write, row=row))
    for name, row in _TABLE.items()
)
