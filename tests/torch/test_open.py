"""Graphs that leave sizes open: one network for a range of them."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tilework.torch import Settings, backend  # noqa: E402
from tilework.torch.compiled import CompiledGraph  # noqa: E402
from tilework.torch.notes import _SAID  # noqa: E402

WIDTH, HEADS = 32, 4


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    _SAID.clear()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def graphs(monkeypatch):
    """All graphs that are compiled."""
    made = []
    init = CompiledGraph.__init__
    monkeypatch.setattr(
        CompiledGraph, "__init__", lambda self, *a: made.append(self) or init(self, *a)
    )
    return made


def compiled(model, cores=1, **options):
    settings = Settings.of(
        None, {"target": f"llvm -mcpu=native -num-cores={cores}", "cache": False, **options}
    )
    return torch.compile(model, backend=lambda gm, x: backend(gm, x, settings), dynamic=True)


def check(run, model, *inputs):
    found, want = run(*inputs), model(*inputs)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, want)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


class Decoder(nn.Module):
    """A layer of attention that appends to its cache."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, WIDTH), nn.Embedding(4096, WIDTH)
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, ids, keys, values):
        b, n = ids.shape
        x = self.words(ids) + self.places(keys.shape[2] + torch.arange(n))
        qkv = self.qkv(self.norm(x)).view(b, n, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen, both = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = nn.functional.scaled_dot_product_attention(q, seen, both)
        y = y + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, n, WIDTH)[:, -1], seen, both


def feed(b, n, past):
    cache = [torch.randn(b, HEADS, past, WIDTH // HEADS) for _ in range(2)]
    return torch.randint(0, 50, (b, n)), *cache


def test_a_decoder_is_compiled_once(graphs):
    model = Decoder().eval()
    run = compiled(model, cores=2)
    with torch.inference_mode():
        for b, n, past in ((2, 7, 5), (2, 9, 33), (5, 16, 100), (3, 64, 17), (2, 2, 511)):
            check(run, model, *feed(b, n, past))
        (graph,) = graphs
        (form,) = graph.forms
        check(run, model, *feed(2, 900, 3))  # beyond the range
        assert [f.ranges is None for f in graph.forms] == [False, False]
        check(run, model, *feed(2, 9, 3))
        assert graph.forms[1] is form and len(graph.forms) == 2


def test_a_cache_that_grows(graphs):
    model = Decoder().eval()
    run = compiled(model)
    ids, *cache = feed(2, 5, 2)
    with torch.inference_mode():
        for _ in range(20):
            _, *grown = run(ids, *cache)
            check(run, model, ids, *cache)
            ids, cache = torch.randint(0, 50, (2, 1)), grown
    assert sum(len(g.forms) for g in graphs) <= 2  # five tokens at first, one from then on


def test_images_of_any_number(graphs):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    ).eval()  # fmt: skip
    run = compiled(model)
    with torch.inference_mode():
        for n in (2, 3, 17, 64):
            x = torch.randn(n, 3, 12, 12)
            torch._dynamo.maybe_mark_dynamic(x, 0)
            for d in (1, 2, 3):
                torch._dynamo.mark_static(x, d)
            check(run, model, x)
    assert sum(f.ranges is not None for g in graphs for f in g.forms) <= 2


def test_layouts_types_and_numbers():
    def model(x, y):
        return (x.transpose(0, 1) @ y.float() + x.shape[0]).to(torch.bfloat16), y.flip(1)[:, -2:]

    run = compiled(model)
    with torch.inference_mode():
        for rows in (3, 8, 33):
            x, y = torch.randn(6, rows).T, torch.randn(rows, 9).to(torch.bfloat16)
            found, want = run(x, y), model(x, y)
            assert [a.dtype for a in found] == [b.dtype for b in want]
            for a, b in zip(found, want, strict=True):
                torch.testing.assert_close(a.float(), b.float(), rtol=2e-2, atol=2e-2)


def test_a_range_is_what_the_user_bounds(graphs):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    run = compiled(model)
    with torch.inference_mode():
        for n in (3, 4000):
            x = torch.randn(n, 8)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=5000)
            check(run, model, x)
    (graph,) = graphs
    (form,) = graph.forms
    assert form.ranges == ((2, 5000, 1, 0),)


class Images(nn.Module):
    """What follows from sizes: interpolation, padding to multiples, a shift, a deviation."""

    def __init__(self, **how):
        super().__init__()
        self.first, self.how = nn.Conv2d(3, 4, 3, stride=2, padding=1), how

    def forward(self, x):
        (n, _, h, w), y = x.shape, self.first(x)
        y = nn.functional.interpolate(y, size=(h, w), **self.how)
        y = nn.functional.pad(y, (0, -w % 4, 0, -h % 4))
        y = torch.roll(y, (-2, 1), (2, 3)) / y.std((2, 3), keepdim=True)
        rows = torch.arange(h // 2).float().repeat(n, w // 2).view(n, -1, h // 2)
        return y, rows.transpose(1, 2) @ rows, nn.functional.adaptive_avg_pool2d(y, 1)


@pytest.mark.parametrize(
    "how",
    [
        {"mode": "nearest"},
        {"mode": "bilinear"},
        {"mode": "bilinear", "align_corners": True},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_images_of_any_size(how, graphs):
    model = Images(**how).eval()
    run = compiled(model)
    with torch.inference_mode():
        for n, h, w in ((2, 9, 12), (3, 16, 7), (2, 30, 31)):
            check(run, model, torch.randn(n, 3, h, w))
    assert [len(g.forms) for g in graphs] == [1] and graphs[0].forms[0].ranges


def running(x):
    sums = torch.cumsum(x, 1) * x.shape[1] ** -0.5
    return torch.topk(sums, 3, dim=1)[0], torch.floor_divide(x, 0.3)


def test_scans_and_numbers_of_sizes(graphs):
    run = compiled(running)
    with torch.inference_mode():
        for b, n in ((2, 5), (3, 17), (4, 40)):
            check(run, running, torch.randn(b, n, 6))
    assert [len(g.forms) for g in graphs] == [1] and graphs[0].forms[0].ranges


def test_what_stays_splits_a_graph_of_open_sizes(graphs):
    """One form for all sizes, of two networks around an operator of PyTorch's."""
    first, last = nn.Linear(6, 8), nn.Linear(8, 5)

    def model(x):
        y = torch.sort(first(x).view(-1, x.shape[1] * 8), dim=1)[0]
        return last(y.view(*x.shape[:2], 8)).softmax(1)

    run = compiled(model)
    with torch.inference_mode():
        with pytest.warns(UserWarning, match="stays with PyTorch: aten.sort"):
            check(run, model, torch.randn(2, 5, 6))
        for b, n in ((3, 17), (4, 40)):
            check(run, model, torch.randn(b, n, 6))
    assert [len(g.forms) for g in graphs] == [1] and graphs[0].forms[0].ranges


def test_numbers_among_the_outputs(graphs):
    """What a graph says of sizes to the Python behind it."""

    def model(x, n):
        y, total = (x @ x.T).softmax(1), x.shape[0] + 2 * n
        torch._dynamo.graph_break()
        return y, torch.zeros(total, 2), [total, n]

    run = compiled(model)
    with torch.inference_mode():
        for rows, n in ((3, 4), (9, 6)):
            _, zeros, numbers = run(torch.randn(rows, 8), n)
            assert zeros.shape == (rows + 2 * n, 2) and numbers == [rows + 2 * n, n]
    assert graphs[0].forms[0].ranges and len(graphs[0].forms) == 1


def test_large_numbers_are_no_sizes(graphs):
    """A number that no tensor shows is fed as a size; a large one would be much memory."""

    def model(x, n):
        return (x * n).softmax(1) @ x.T

    run = compiled(model)
    with torch.inference_mode():
        for rows, n in ((3, 7), (9, 30)):
            check(run, model, torch.randn(rows, 8), n)
        assert all(f.ranges for g in graphs for f in g.forms)
        with pytest.warns(UserWarning, match="but a number"):
            check(run, model, torch.randn(9, 8), 2**26)
