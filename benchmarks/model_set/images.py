"""Classifiers of images, of the package timm."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from model_set.export import SEED, Feeds, Model, dynamo, trained


def _write(path: Path, name: str) -> Feeds:
    """One image; the batch may be larger."""
    import timm

    torch.manual_seed(SEED)
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(SEED))
    net = trained(timm.create_model(name, pretrained=False), torch.randn(4, 3, 224, 224))
    dynamo(path, net, {"x": x.repeat(2, 1, 1, 1)}, {"x": {0: "batch"}}, ["logits"])
    return {"x": x.numpy()}


def _model(name: str, words: str, of_timm: str) -> Model:
    return Model(name, f"{words}, 1x3x224x224", partial(_write, name=of_timm))


MODELS = (
    _model("vit", "ViT small, patches of 16", "vit_small_patch16_224"),
    _model("swin", "Swin tiny", "swin_tiny_patch4_window7_224"),
    _model("convnext", "ConvNeXt tiny", "convnext_tiny"),
    _model("efficientnet", "EfficientNet-B0", "efficientnet_b0"),
    _model("mobilenetv3", "MobileNetV3 large", "mobilenetv3_large_100"),
)
