"""Language models that go on from a cache, and a mixture of experts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model_set.export import SEED, Feeds, Model, dynamo
from model_set.text import tokens

_PAST = 63


class _WithCache(nn.Module):
    """One step of a decoder: keys and values of the past come in, those of now go out."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: Sequence[Tensor]) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        found = self.net(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache,
            use_cache=True,
        )  # fmt: skip
        layers = found.past_key_values.layers
        return found.logits, [x for layer in layers for x in (layer.keys, layer.values)]


def _write(
    path: Path, net: nn.Module, layers: int, heads: int, now: int = 1, past: int = _PAST
) -> Feeds:
    """Heads are 64 wide. The file takes any past; it is run on ``now`` tokens after ``past``."""
    step = _inputs(net, layers, heads, 1, now, past)
    example = _inputs(net, layers, heads, 2, 3, 5)
    dims = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "past_and_sequence"},
        "past": [{0: "batch", 2: "past_sequence"}] * (2 * layers),
    }
    names = ["logits", *(f"present_{i}" for i in range(2 * layers))]
    dynamo(path, _WithCache(net), example, dims, names)
    kept = {f"past_{i}": x.numpy() for i, x in enumerate(step.pop("past"))}
    return {name: x.numpy() for name, x in step.items()} | kept


def _inputs(
    net: nn.Module, layers: int, heads: int, batch: int, now: int, past: int
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(SEED)
    shape = (batch, heads, past, 64)
    return {
        "input_ids": tokens(net.config.vocab_size, now, batch),
        "attention_mask": torch.ones(batch, past + now, dtype=torch.int64),
        "past": [torch.randn(shape, generator=generator) for _ in range(2 * layers)],
    }


def _gpt2(path: Path) -> Feeds:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    return _write(path, GPT2LMHeadModel(GPT2Config(n_layer=3)), 3, 12)


def _llama(path: Path, now: int = 1, past: int = _PAST) -> Feeds:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=6,
        num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True,
    )  # fmt: skip
    return _write(path, LlamaForCausalLM(config), 6, 3, now, past)


class _Experts(nn.Module):
    """Two layers of Mixtral, from token ids to logits."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.net(input_ids=input_ids, use_cache=False).logits


def _mixtral(path: Path) -> Feeds:
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(SEED)
    config = MixtralConfig(
        vocab_size=8000, hidden_size=512, intermediate_size=1792, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2, num_local_experts=8,
        experts_implementation="batched_mm",
    )  # fmt: skip
    net = _Experts(MixtralForCausalLM(config))
    dims = {"input_ids": {0: "batch", 1: "sequence"}}
    dynamo(path, net, {"input_ids": tokens(8000, 24, 2)}, dims, ["logits"])
    return {"input_ids": tokens(8000, 16).numpy()}


MODELS = (
    Model("gpt2", "GPT-2, 3 of 12 layers, one token after a past of 63", _gpt2),
    Model(
        "llama", "Llama (SmolLM2-135M: 9 heads, 3 of keys), 6 of 30 layers, one token after 63",
        _llama,
    ),
    Model(
        "llama_prompt", "the same file, a prompt of 16 tokens after an empty past",
        lambda path: _llama(path, 16, 0),
    ),
    Model(
        "mixtral", "Mixtral's experts (8, two of them a token), 2 layers of an eighth width, 1x16",
        _mixtral,
    ),
)  # fmt: skip
