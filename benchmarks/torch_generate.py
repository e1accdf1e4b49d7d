"""`generate` with a cache that grows, under torch.compile, beside eager PyTorch.

    pip install -e '.[models]'
    python benchmarks/torch_generate.py [--models gpt2 llama] [--tokens 32] [--threads 2]
                                        [--static]

Small language models with random weights. The first call compiles; the others take turns with
eager, each with a prompt of another length. Tokens are compared. ``--static``: each size is
compiled by itself, up to the bound of forms.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tilework.torch.compiled import CompiledGraph

WORDS = 1000
MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=WORDS, eos_token_id=None)
    ),
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=WORDS, eos_token_id=None,
        )
    ),
}  # fmt: skip


def main() -> None:
    """Generate, compare, time, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--calls", type=int, default=7)
    parser.add_argument("--static", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.static:
        CompiledGraph._open = lambda *_: None  # type: ignore[method-assign]
    warnings.filterwarnings("ignore", category=UserWarning)
    print("model     first call     later      eager     later / eager")
    for name in args.models:
        torch._dynamo.reset()
        torch.manual_seed(0)
        with torch.inference_mode():
            _row(name, MODELS[name]().eval(), args)


def _row(name: str, model: Any, args: argparse.Namespace) -> None:
    eager = model.forward
    fast = torch.compile(eager, backend="tilework", dynamic=True, options={"cache": False})

    def generate(forward: Any, ids: torch.Tensor) -> tuple[float, torch.Tensor]:
        model.forward = forward
        begun = time.perf_counter()
        found = model.generate(
            ids, max_new_tokens=args.tokens, do_sample=False, pad_token_id=0, use_cache=True
        )
        return time.perf_counter() - begun, found

    lengths = [11, *(7 + 5 * i for i in range(args.calls))]
    prompts = [torch.randint(0, WORDS, (1, n)) for n in lengths]
    times = []
    for ids in prompts:
        ours, found = generate(fast, ids)
        theirs, want = generate(eager, ids)
        assert torch.equal(found, want), "other tokens"
        times.append((ours, theirs))
    first, *later = times
    ours, theirs = (statistics.median(column) for column in zip(*later, strict=True))
    ratio = statistics.median(a / b for a, b in later)
    print(f"{name:8s} {first[0]:10.2f} s {ours:9.3f} s {theirs:8.3f} s {ratio:10.2f}", flush=True)


if __name__ == "__main__":
    main()
