"""Encoders of texts, of the package transformers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model_set.export import SEED, Feeds, Model, dynamo, torchscript

_LENGTH, _PADDED = 128, 16
_VARIES = {0: "batch", 1: "sequence"}


class _Named(nn.Module):
    """A model of transformers that takes tensors by name and returns some of its outputs."""

    def __init__(self, net: nn.Module, *outputs: str) -> None:
        super().__init__()
        self.net, self.outputs = net, outputs


class _Pairs(_Named):
    """With token types: which of two texts a token is of."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Any:
        found = self.net(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return tuple(found[name] for name in self.outputs)


class _Single(_Named):
    """Without token types."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        found = self.net(input_ids, attention_mask=attention_mask)
        return tuple(found[name] for name in self.outputs)


def tokens(vocabulary: int, length: int = _LENGTH, batch: int = 1) -> Tensor:
    """Random token ids, always the same."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(0, vocabulary, (batch, length), generator=generator)


def _write(
    path: Path,
    net: nn.Module,
    outputs: tuple[str, ...],
    pairs: bool,
    export: Callable[..., Feeds] = dynamo,
) -> Feeds:
    """One text of 128 tokens, the last 16 of them padding."""
    mask = torch.ones(1, _LENGTH, dtype=torch.int64)
    mask[:, -_PADDED:] = 0
    inputs = {"input_ids": tokens(net.config.vocab_size), "attention_mask": mask}
    if pairs:
        inputs["token_type_ids"] = (torch.arange(_LENGTH) >= 50).to(torch.int64)[None]
    wrapped = (_Pairs if pairs else _Single)(net, *outputs)
    # the exporter wants other extents than 1 to see that they vary
    example = {name: tensor.repeat(2, 1) for name, tensor in inputs.items()}
    export(path, wrapped, example, dict.fromkeys(inputs, _VARIES), outputs)
    return {name: tensor.numpy() for name, tensor in inputs.items()}


def _bert(path: Path, pairs: bool) -> Feeds:
    from transformers import BertConfig, BertModel

    torch.manual_seed(SEED)
    net = BertModel(BertConfig(num_hidden_layers=4))
    return _write(path, net, ("last_hidden_state", "pooler_output"), pairs)


def _albert(path: Path) -> Feeds:
    from transformers import AlbertConfig, AlbertModel

    torch.manual_seed(SEED)
    config = AlbertConfig(
        hidden_size=768, intermediate_size=3072, num_attention_heads=12, num_hidden_layers=12
    )
    return _write(path, AlbertModel(config), ("last_hidden_state", "pooler_output"), False)


def _minilm(path: Path, attention: str = "sdpa", export: Callable[..., Feeds] = dynamo) -> Feeds:
    from transformers import BertConfig, BertModel

    torch.manual_seed(SEED)
    config = BertConfig(
        hidden_size=384, intermediate_size=1536, num_attention_heads=12, num_hidden_layers=6,
        attn_implementation=attention,
    )  # fmt: skip
    net = BertModel(config, add_pooling_layer=False)
    return _write(path, net, ("last_hidden_state",), True, export)


def _t5(path: Path) -> Feeds:
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(SEED)
    return _write(path, T5EncoderModel(T5Config()), ("last_hidden_state",), False)


def _optimised(path: Path, plain: Callable[[Path], Feeds], heads: int, width: int) -> Feeds:
    """A model of this family after ONNX Runtime's optimiser for transformers."""
    from onnxruntime.transformers.optimizer import optimize_model

    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "model.onnx"
        feeds = plain(before)
        found = optimize_model(str(before), "bert", num_heads=heads, hidden_size=width)
        found.save_model_to_file(str(path))
    return feeds


MODELS = (
    Model("bert", "BERT base, 4 of 12 layers, 1x128", lambda path: _bert(path, True)),
    Model(
        "bert_single", "the same without token_type_ids, 1x128", lambda path: _bert(path, False)
    ),
    Model("albert", "ALBERT base v2, 1x128, without token_type_ids", _albert),
    Model("minilm", "MiniLM-L6, 1x128", _minilm),
    Model("t5_encoder", "T5 small's encoder, 1x128", _t5),
    Model(
        "bert_optimised", "bert after ONNX Runtime's optimiser for transformers",
        lambda path: _optimised(path, lambda plain: _bert(plain, True), 12, 768),
        "dynamo, onnxruntime.transformers",
    ),
    Model(
        "minilm_optimised", "minilm after the same; its patterns are the older exporter's",
        lambda path: _optimised(path, lambda p: _minilm(p, "eager", torchscript), 12, 384),
        "TorchScript, onnxruntime.transformers",
    ),
)  # fmt: skip
