"""Recommendation and graphs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from model_set.export import SEED, Feeds, Model, dynamo

_TABLES, _ROWS, _WIDTH = 8, 10000, 64


class _Recommendation(nn.Module):
    """DLRM: bags of embeddings, dense features, products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(_ROWS, _WIDTH, mode="sum") for _ in range(_TABLES)
        )
        self.bottom = nn.Sequential(
            nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
            nn.Linear(256, _WIDTH), nn.ReLU(),
        )  # fmt: skip
        pairs = (_TABLES + 1) * _TABLES // 2
        self.top = nn.Sequential(
            nn.Linear(_WIDTH + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
            nn.Linear(256, 1), nn.Sigmoid(),
        )  # fmt: skip
        rows, columns = torch.tril_indices(_TABLES + 1, _TABLES + 1, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [bag(indices[i], offsets[i]) for i, bag in enumerate(self.bags)]
        all_ = torch.stack([x, *bags], 1)
        products = torch.bmm(all_, all_.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([x, products], 1))


def _dlrm(path: Path) -> Feeds:
    torch.manual_seed(SEED)
    batch, each = 32, 4
    generator = torch.Generator().manual_seed(SEED)
    inputs = {
        "dense": torch.randn(batch, 13, generator=generator),
        "indices": torch.randint(0, _ROWS, (_TABLES, batch * each), generator=generator),
        "offsets": (torch.arange(batch) * each).repeat(_TABLES, 1),
    }
    dims = {"dense": {0: "batch"}, "indices": {1: "looked_up"}, "offsets": {1: "batch"}}
    return dynamo(path, _Recommendation(), inputs, dims, ["click"])


class _Passing(nn.Module):
    """A layer of a graph: messages along edges, with attention, summed where they arrive."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value, self.own = nn.Linear(width, width), nn.Linear(width, width)
        self.weigh = nn.Linear(2 * width, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, goal = edges[0], edges[1]
        message = self.value(x)[source]
        score = nn.functional.leaky_relu(self.weigh(torch.cat([x[source], x[goal]], 1)), 0.2)
        top = torch.full((x.shape[0], 1), -1e9).scatter_reduce(0, goal[:, None], score, "amax")
        share = (score - top[goal]).exp()
        total = torch.zeros(x.shape[0], 1).index_add(0, goal, share)
        met = torch.zeros_like(x).index_add(0, goal, share * message)
        return torch.relu(self.own(x) + met / (total + 1e-6))


class _Graph(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Passing(width) for _ in range(3))
        self.head = nn.Linear(width, 7)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            nodes = layer(nodes, edges)
        return self.head(nodes)


def _graph(path: Path) -> Feeds:
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    inputs = {
        "nodes": torch.randn(500, 64, generator=generator),
        "edges": torch.randint(0, 500, (2, 3000), generator=generator),
    }
    dims = {"nodes": {0: "nodes"}, "edges": {1: "edges"}}
    return dynamo(path, _Graph(), inputs, dims, ["classes"])


MODELS = (
    Model("dlrm", "DLRM, 8 of 26 tables of 10,000 rows as EmbeddingBag, batch 32", _dlrm),
    Model("graph", "3 layers of graph attention, 500 nodes, 3,000 edges", _graph),
)
