"""`torch.compile` with this backend: what is compiled, what stays, what is refused."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tilework.errors import TargetError  # noqa: E402
from tilework.target import Target  # noqa: E402
from tilework.torch import Settings, backend  # noqa: E402
from tilework.torch.compiled import CompiledGraph  # noqa: E402
from tilework.torch.notes import _SAID  # noqa: E402
from tilework.torch.training import TrainingError  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    _SAID.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def compiled(model, graphs=None, **options):
    """The model compiled for one thread; the graphs that were compiled are added to a list."""
    settings = Settings.of(None, {"target": "llvm -mcpu=native -num-cores=1", **options})

    def one(gm, inputs):
        run = backend(gm, inputs, settings)
        if graphs is not None:
            graphs.append(run)
        return run

    return torch.compile(model, backend=one)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.out(x.mean((2, 3)))


@pytest.fixture
def model():
    return Small().eval()


@pytest.fixture
def x():
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def test_a_result_is_new_memory_at_every_call(model, x):
    run = compiled(model)
    with torch.inference_mode():
        first = run(x)
        kept = first.clone()
        second = run(2 * x)
        assert torch.equal(first, kept) and not torch.equal(first, second)
        first.zero_()
        torch.testing.assert_close(run(x), kept)
    torch.testing.assert_close(kept, model(x).detach())


def test_inputs_that_lie_otherwise_give_the_same(model, x):
    run = compiled(model)
    wide = torch.zeros(2, 3, 8, 9)
    wide[..., 1:] = x
    with torch.no_grad():
        want = model(x)
        for other in (x.contiguous(memory_format=torch.channels_last), wide[..., 1:], x.clone()):
            torch.testing.assert_close(run(other), want)


def test_the_memory_order_of_results_is_pytorchs_own():
    conv = nn.Conv2d(3, 4, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        want, found = conv(x), compiled(conv)(x)
    assert found.stride() == want.stride()
    torch.testing.assert_close(found, want)


def test_what_networks_lack_stays_with_pytorch_and_is_said_once():
    def model(x):
        y = torch.relu(x @ x.T) + 1
        y = torch.linalg.inv(y + 10 * torch.eye(4))
        return torch.softmax(y @ y, -1) * 2, y

    x = torch.randn(4, 4)
    run = compiled(model)
    with torch.no_grad():
        with pytest.warns(UserWarning, match=r"stays with PyTorch: aten\.linalg_inv_ex"):
            found = run(x)
        for a, b in zip(found, model(x), strict=True):
            torch.testing.assert_close(a, b)
        torch._dynamo.reset()
        run(x)  # a second warning would be an error here


def test_random_numbers_are_pytorchs_own():
    def model(x):
        return torch.relu(x @ x) * torch.rand(4, 4) + torch.rand(4, 4)

    x = torch.randn(4, 4)
    run = compiled(model)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(3)
        want = model(x)
        torch.manual_seed(3)
        torch.testing.assert_close(run(x), want)
        assert not torch.equal(run(x), run(x))


def test_a_graph_of_little_work_stays_with_pytorch():
    with torch.no_grad():
        assert compiled(lambda x: x.view(4, 2) + 1)(torch.ones(8)).tolist() == [[2.0, 2.0]] * 4


def test_inputs_may_be_outputs_and_results_may_appear_twice():
    def model(x, y):
        z = torch.relu(x @ y)
        return x, z, z, z.view(-1), 3, torch.ones(2)

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with torch.no_grad():
        found, want = compiled(model)(x, y), model(x, y)
    assert found[0] is x and found[4] == 3
    for a, b in zip(found, want, strict=True):
        torch.testing.assert_close(a, b)


def test_a_changed_parameter_is_seen(model, x):
    run = compiled(model)
    with torch.no_grad():
        before = run(x)
        model.out.bias.add_(1)
        torch.testing.assert_close(run(x), before + 1)
        model.out.bias = nn.Parameter(model.out.bias + 1)
        torch.testing.assert_close(run(x), before + 2)
        model.load_state_dict(Small().state_dict())
        torch.testing.assert_close(run(x), before)


def test_parameters_that_change_all_the_time_are_left_to_pytorch(model, x):
    run = compiled(model, forms=2)
    with torch.no_grad():
        for _ in range(2):
            run(x)
            model.out.bias.add_(1)
        with pytest.warns(UserWarning, match="2 compiled forms"):
            torch.testing.assert_close(run(x), model(x))


def test_what_a_model_writes_to_is_no_constant(x):
    class Counting(Small):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(5))

        def forward(self, x):
            self.calls.add_(1)
            return super().forward(x) + self.calls

    ours, theirs = Counting().eval(), Counting().eval()
    run = compiled(ours, forms=1)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), theirs(x))
    assert ours.calls.tolist() == [3.0] * 5


def test_sizes_are_compiled_one_by_one_up_to_a_bound(model, monkeypatch):
    made = []
    make = CompiledGraph._run_for
    monkeypatch.setattr(CompiledGraph, "_run_for", lambda *a: made.append(a) or make(*a))
    monkeypatch.setattr(CompiledGraph, "_open", lambda *a: None)
    run = compiled(model, forms=3)
    with torch.no_grad():
        for n in (2, 3, 4, 3, 2):
            x = torch.randn(n, 3, 8, 8)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(run(x), model(x))
        assert len(made) == 3
        with pytest.warns(UserWarning, match="3 compiled forms"):
            x = torch.randn(5, 3, 8, 8)
            torch.testing.assert_close(run(x), model(x))


def test_a_function_of_numbers_and_tensors():
    def model(x, n, scale):
        return torch.softmax(x.view(n, -1) @ x.view(-1, n), -1) * scale + x.shape[0]

    run = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        x = torch.randn(12)
        with pytest.warns(UserWarning, match="each size that occurs: the size .*//.* is no arith"):
            run(x, 2, 0.5)
        for n, scale in ((2, 0.5), (3, 1.5), (4, -2.0)):
            torch.testing.assert_close(run(x, n, scale), model(x, n, scale))


def test_a_cache_that_is_empty_at_first():
    layer = nn.Linear(8, 8).eval()

    def step(past, x):
        keys = torch.cat([past, layer(x)], 1)
        return torch.softmax(keys @ x.transpose(1, 2), 1), keys, past.relu()

    run, past, x = compiled(step), torch.zeros(1, 0, 8), torch.ones(1, 2, 8)
    with torch.no_grad():
        for _ in range(2):
            found, wanted = run(past, x), step(past, x)
            for a, b in zip(found, wanted, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
            past = found[1]
    assert not _SAID


def test_layers_of_one_class_are_compiled_each(x):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3))).eval()
    want = model(x)
    for layer in model:
        layer.forward = compiled(layer.forward)
    with torch.no_grad():
        torch.testing.assert_close(model(x), want.detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_element_types(model, x, dtype):
    model, x = model.to(dtype), x.to(dtype)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=2e-2, atol=2e-2)


def test_autocast_is_followed(model, x):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        want, found = model(x), compiled(model)(x)
    assert found.dtype == want.dtype
    torch.testing.assert_close(found, want, rtol=2e-2, atol=2e-2)


def test_threads_share_a_compiled_model(model, x):
    from concurrent.futures import ThreadPoolExecutor

    run = compiled(model)
    with torch.no_grad():
        want = run(x)

    def once(_):
        with torch.no_grad():
            return torch.equal(run(x), want)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(once, range(64)))


# ---------------------------------------------------------------- training


def test_a_layer_in_training_mode_is_refused(x):
    model = nn.Sequential(Small(), nn.Dropout(0.5))
    with pytest.raises(TrainingError, match=r"is in training mode.*model\.eval\(\)"):
        compiled(model)(x)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_an_input_that_requires_a_gradient_is_refused(model, x):
    x.requires_grad_()
    with pytest.raises(TrainingError, match=r"requires a gradient.*torch\.no_grad\(\)"):
        compiled(model)(x)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_asking_for_the_gradient_of_a_result_is_refused(model, x):
    found = compiled(model)(x)
    assert found.requires_grad
    torch.testing.assert_close(found, model(x))
    with pytest.raises(TrainingError, match="has no gradients"):
        found.sum().backward()


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("fastest", {}, "no mode 'fastest'; it has default"),
        (None, {"thread": 2}, "no option thread; it has target"),
        (None, {"forms": 0}, "option forms is 0"),
        (None, {"precision": "int8"}, "precision is 'int8'"),
        (None, {"target": 3}, "option target must be a text"),
    ],
)
def test_settings_that_make_no_sense(mode, options, said):
    from tilework.errors import TileworkError

    with pytest.raises(TileworkError, match=said):
        Settings.of(mode, options)


def test_max_autotune_measures():
    assert Settings.of("max-autotune").trials > 0
    assert Settings.of("max-autotune", {"trials": 8}).trials == 8


def test_a_wrong_target_is_an_error(model, x):
    with torch.no_grad(), pytest.raises(TargetError):
        compiled(model, target="llvm -mcpu=nosuch")(x)


@pytest.mark.skipif(
    "avx512bf16" not in Target("llvm").features, reason="this CPU lacks avx512bf16"
)
def test_precision(model, x):
    with torch.no_grad():
        torch.testing.assert_close(
            compiled(model, precision="bf16")(x), model(x), rtol=2e-2, atol=2e-2
        )
