"""Whisper, and recurrent networks with heads for connectionist temporal classification."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from model_set.export import SEED, Feeds, Model, dynamo, torchscript, trained
from model_set.text import tokens

_FEATURES, _SYMBOLS = 80, 32


def _whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperModel

    torch.manual_seed(SEED)
    return WhisperModel(
        WhisperConfig(
            d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
            decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
        )
    )  # fmt: skip


class _Encoder(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.encoder

    def forward(self, input_features: Tensor) -> Tensor:
        return self.net(input_features).last_hidden_state


class _Decoder(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.decoder

    def forward(self, input_ids: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        found = self.net(
            input_ids=input_ids, encoder_hidden_states=encoder_hidden_states, use_cache=False
        )
        return found.last_hidden_state


def _whisper_encoder(path: Path) -> Feeds:
    x = torch.randn(1, _FEATURES, 3000, generator=torch.Generator().manual_seed(SEED))
    dims = {"input_features": {0: "batch"}}
    example = {"input_features": x.repeat(2, 1, 1)}
    dynamo(path, _Encoder(_whisper()), example, dims, ["last_hidden_state"])
    return {"input_features": x.numpy()}


def _whisper_decoder(path: Path) -> Feeds:
    def inputs(batch: int, length: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(SEED)
        heard = torch.randn(batch, 1500, 384, generator=generator)
        return {"input_ids": tokens(51865, length, batch), "encoder_hidden_states": heard}

    dims = {"input_ids": {0: "batch", 1: "sequence"}, "encoder_hidden_states": {0: "batch"}}
    dynamo(path, _Decoder(_whisper()), inputs(2, 7), dims, ["last_hidden_state"])
    return {name: x.numpy() for name, x in inputs(1, 16).items()}


class _Recurrent(nn.Module):
    """Two convolutions over time, three recurrent layers in both directions, symbols."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(_FEATURES, 256, 11, 2, 5), nn.BatchNorm1d(256), nn.Hardtanh(0, 20),
            nn.Conv1d(256, 256, 11, 1, 5), nn.BatchNorm1d(256), nn.Hardtanh(0, 20),
        )  # fmt: skip
        self.layers = kind(256, 320, num_layers=3, bidirectional=True, batch_first=True)
        self.head = nn.Linear(640, _SYMBOLS)

    def forward(self, features: Tensor) -> Tensor:
        x = self.front(features).transpose(1, 2)
        return self.head(self.layers(x)[0]).log_softmax(-1)


def _recurrent(path: Path, kind: type[nn.LSTM] | type[nn.GRU]) -> Feeds:
    """One of the two by each exporter: they write the same layers in different ways."""
    torch.manual_seed(SEED)
    net = trained(_Recurrent(kind), torch.randn(2, _FEATURES, 200))
    for weight in (*net.layers.parameters(), *net.head.parameters()):
        nn.init.normal_(weight, 0.0, 0.1)
    x = torch.randn(1, _FEATURES, 200, generator=torch.Generator().manual_seed(SEED))
    write = dynamo if kind is nn.LSTM else torchscript
    write(path, net, {"features": x}, {"features": {2: "frames"}}, ["log_probabilities"])
    return {"features": x.numpy()}


MODELS = (
    Model("whisper_encoder", "Whisper tiny's encoder, 30 s", _whisper_encoder),
    Model("whisper_decoder", "Whisper tiny's decoder, 16 tokens, no cache", _whisper_decoder),
    Model(
        "lstm_ctc", "3 bidirectional LSTM of 320, CTC head, 200 frames",
        lambda path: _recurrent(path, nn.LSTM),
    ),
    Model(
        "gru_ctc", "3 bidirectional GRU of 320, CTC head, 200 frames",
        lambda path: _recurrent(path, nn.GRU), "TorchScript",
    ),
)  # fmt: skip
