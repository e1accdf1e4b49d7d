"""Lines of random PyTorch programs.

A template is a line of code: ``{x}`` is any value, ``{y}`` another one of the same shape, ``{f}``
one of floats, ``{b}`` one of bool, ``{i}`` one of integers, ``{m}`` images of 4 dimensions,
``{d}`` a dimension of the first value, ``{n}`` a small number, ``{c}`` a real number, ``{P:..}`` a
parameter whose shape is a Python expression of ``s``, the first value's shape. What does not fit
raises, and another line is drawn.
"""

from __future__ import annotations

UNARY = """
torch.exp({f}.clamp(max=3.0))
torch.log({f}.abs() + 0.5)
torch.sqrt({f}.abs() + 0.1)
torch.rsqrt({f}.abs() + 0.2)
torch.tanh({f})
torch.sigmoid({f})
torch.erf({f})
torch.sin({f})
torch.cos({f})
torch.atan({f})
torch.asinh({f})
torch.sinh({f}.clamp(-2, 2))
torch.log1p({f}.abs())
torch.expm1({f}.clamp(max=2.0))
torch.floor({f})
torch.ceil({f})
torch.round({f})
torch.trunc({f})
torch.frac({f})
torch.abs({x})
torch.neg({x})
torch.sign({x})
torch.square({f})
1.0 / ({f}.abs() + 1.0)
torch.log2({f}.abs() + 0.5)
torch.erfc({f})
torch.logit(torch.sigmoid({f}))
torch.exp2({f}.clamp(-3, 3))
"""
ACTIVATIONS = """
F.relu({f})
F.relu6({f})
F.gelu({f})
F.silu({f})
F.mish({f})
F.hardswish({f})
F.hardsigmoid({f})
F.hardtanh({f})
F.elu({f})
F.selu({f})
F.celu({f})
F.softplus({f})
F.softsign({f})
F.logsigmoid({f})
F.leaky_relu({f})
F.tanhshrink({f})
F.hardshrink({f})
F.softshrink({f})
F.gelu({f}, approximate='tanh')
F.leaky_relu({f}, {c})
F.elu({f}, alpha=0.5)
F.softplus({f}, beta=2.0)
F.glu({f}, {d})
F.threshold({f}, 0.1, {c})
F.prelu({m}, {P:s[1]})
"""
BINARY = """
{x} + {y}
{x} - {y}
{x} * {y}
{f} / ({y}.abs() + 1.0)
torch.maximum({x}, {y})
torch.minimum({x}, {y})
{x} + {c}
{c} - {x}
{x} * {n}
{x} / 3
{f} ** 2
{f}.abs() ** 1.5
torch.add({x}, {y}, alpha=2)
torch.where({b}, {x}, {y})
torch.where({x} > {y}, {x}, {c})
{x} + {P:s[-1]}
{f} * {P:s}
torch.lerp({f}, {y}.to({f}.dtype), 0.3)
torch.addcmul({f}, {f}, {y}.to({f}.dtype))
{x}.masked_fill({x} > 0, {n})
{f}.clamp(-0.5, {c} + 1)
torch.clamp({f}, min={y}.to({f}.dtype))
torch.fmod({f}, 1.7)
torch.remainder({f}, 1.7)
torch.atan2({f}, {y}.to({f}.dtype))
torch.hypot({f}, {f})
"""
LOGIC = """
{x} > {y}
{x} <= {c}
{x} == {y}
{x} != 0
~{b}
{b} & {b}
{b} | ({x} > 0)
torch.logical_xor({b}, {b})
{b}.float()
{b}.long()
{b} + 1
{b} * {x}
torch.isnan({f})
"""
INTEGERS = """
{i} + 1
{i} * 3 - 2
{i} // 2
{i} % 3
{i} & 3
{i} ^ 5
{i}.float()
{i} / 2
{i}.to(torch.int32)
torch.div({i}, 3, rounding_mode='trunc')
{f}.to(torch.int64)
{i}.clamp(-2, 3)
{f}.to(torch.int32)
{i}.double()
{i} + {f}
({x} > 0).to(torch.uint8)
{i}.to(torch.int8)
"""
SHAPES = """
{x}.reshape(-1)
{x}.flatten(1)
{x}.unsqueeze({d})
{x}.transpose(0, {d})
{x}.movedim({d}, 0)
{x}.flip({d})
{x}.roll(1, {d})
torch.cat([{x}, {y}], {d})
torch.stack([{x}, {y}], {d})
{x}.chunk(2, {d})[0]
{x}.split(2, {d})[-1]
{x}.select({d}, 0)
{x}.narrow({d}, 0, 1)
{x}[..., ::2]
{x}[..., 1:]
{x}[1:]
{x}[None]
{x}.repeat_interleave(2, {d})
{x}.squeeze()
{x}.tile(2)
{x}.unfold({d}, 2, 1)
{m}.permute(0, 2, 3, 1)
{x}.expand(2, *{x}.shape)
{x}.unbind({d})[-1]
F.pad({x}, (1, 2))
F.pad({x}, (1, -1), value=1.0)
F.pad({m}, (1, 1, 1, 1), mode='reflect')
F.pad({m}, (2, 1, 0, 1), mode='replicate')
F.pad({m}, (1, 1, 1, 1), mode='circular')
F.pixel_unshuffle({m}, 2)
F.pixel_shuffle({m}, 2)
F.channel_shuffle({m}, 2)
{x}.tril()
{x}.triu(1)
{x}.diagonal()
{x}.view(2, -1)
{x}.mT
{x}.t()
{x}.contiguous(memory_format=torch.channels_last) if {x}.ndim == 4 else {x} + 1
{x}.swapaxes(0, -1).contiguous()
"""
REDUCTIONS = """
{x}.sum({d})
{x}.amax({d})
{x}.amin({d})
{x}.argmax({d})
{x}.argmin({d})
{x}.cumsum({d})
{f}.mean({d}, keepdim=True)
{f}.sum({d}, keepdim=True)
{f}.amax({d}, keepdim=True)
{f}.logsumexp({d}, keepdim=True)
{f}.var({d}, keepdim=True)
{f}.norm({d}, keepdim=True)
{f}.mean()
{x}.sum()
{f}.std({d})
{x}.max({d}).values
{x}.min({d})[0]
{x}.max({d}).indices
{f}.softmax({d})
{f}.log_softmax({d})
{b}.any({d})
{b}.all()
{x}.any()
{f}.mean((0, -1))
{f}.prod({d})
{f}.norm(p=1)
F.normalize({f}, dim={d})
{x}.topk(1, {d}).values
{x}.topk(2, -1, largest=False)[0]
{x}.sort({d}).values
{x}.median({d}).values
{f}.cumprod({d})
torch.var_mean({f}, {d})[1]
{x}.count_nonzero({d})
"""
WINDOWS = """
F.conv2d({m}, {P:(4, s[1], 3, 3)})
F.conv2d({m}, {P:(4, s[1], 3, 3)}, {P:4}, padding=1)
F.conv2d({m}, {P:(6, s[1], 1, 1)}, stride=2)
F.conv2d({m}, {P:(s[1], 1, 3, 3)}, groups={m}.shape[1], padding=1)
F.conv2d({m}, {P:(2, s[1], 2, 3)}, dilation=2)
F.conv2d({m}, {P:(4, s[1] // 2, 3, 3)}, groups=2)
F.conv1d({f}, {P:(3, s[1], 2)})
F.conv1d({f}, {P:(3, s[1], 3)}, {P:3}, stride=2, padding=1)
F.conv3d({f}, {P:(2, s[1], 2, 2, 2)})
F.conv_transpose2d({m}, {P:(s[1], 3, 2, 2)}, stride=2)
F.conv_transpose2d({m}, {P:(s[1], 2, 3, 3)}, {P:2}, padding=1)
F.max_pool2d({m}, 2)
F.max_pool2d({m}, 3, 2, 1)
F.max_pool2d({m}, 3, 2, ceil_mode=True)
F.avg_pool2d({m}, 2)
F.avg_pool2d({m}, 3, 2, 1, count_include_pad=False)
F.avg_pool2d({m}, 3, 2, 1, ceil_mode=True)
F.max_pool1d({f}, 2)
F.avg_pool1d({f}, 3, 1, 1)
F.adaptive_avg_pool2d({m}, 1)
F.adaptive_avg_pool2d({m}, (2, 3))
F.adaptive_max_pool2d({m}, 2)
F.interpolate({m}, scale_factor=2)
F.interpolate({m}, size=(3, 5), mode='bilinear')
F.max_pool3d({f}, 2)
F.interpolate({m}, scale_factor=2, mode='bilinear', align_corners=True)
F.interpolate({m}, scale_factor=1.5, mode='bicubic')
F.unfold({m}, 2)
"""
PRODUCTS = """
{f} @ {P:(s[-1], 5)}
F.linear({f}, {P:(4, s[-1])}, {P:4})
F.linear({f}, {P:(3, s[-1])})
{f} @ {f}.mT
torch.einsum('...i,...j->...ij', {f}, {f})
{f} @ {P:s[-1]}
torch.bmm({f}, {f}.mT)
torch.addmm({P:3}, {f}, {P:(s[-1], 3)})
torch.baddbmm({f}, {f}, {P:(s[0], s[-1], s[-1])})
F.scaled_dot_product_attention({m}, {m}, {m})
torch.outer({f}, {f})
F.scaled_dot_product_attention({m}, {m}, {m}, is_causal=True)
torch.kron({f}[:2], {f}[:2])
"""
NORMS = """
F.batch_norm({f}, {P:s[1]}, {P:s[1]}.abs() + 0.5, {P:s[1]}, {P:s[1]})
F.batch_norm({m}, {P:s[1]}, {P:s[1]}.abs() + 0.5)
F.layer_norm({f}, {f}.shape[-1:])
F.layer_norm({f}, {f}.shape[-1:], {P:s[-1:]}, {P:s[-1:]})
F.layer_norm({f}, {f}.shape[1:])
F.group_norm({m}, 2)
F.group_norm({f}, 1, {P:s[1]}, {P:s[1]})
F.instance_norm({m})
F.rms_norm({f}, {f}.shape[-1:])
F.local_response_norm({m}, 2)
"""
INDICES = """
{x}[:, [0, -1]]
{x}[[1, 0, 0]]
{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))
{x}.index_select({d}, torch.tensor([0, 0]))
F.embedding({i}.clamp(0, 3), {P:(4, 3)})
{x}[torch.tensor([0, 1]), torch.tensor([1, 0])]
F.one_hot({i}.clamp(0, 3), 4)
torch.take_along_dim({x}, {x}.argmax({d}, keepdim=True), {d})
{x}.index_add({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1))
{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.int64), {c})
torch.bucketize({f}, torch.tensor([-1.0, 0.0, 1.0]))
"""

FAMILIES = tuple(
    family.strip().splitlines()
    for family in (
        UNARY, ACTIVATIONS, ACTIVATIONS, BINARY, BINARY, LOGIC, INTEGERS, SHAPES, SHAPES,
        REDUCTIONS, WINDOWS, WINDOWS, PRODUCTS, NORMS, INDICES,
    )
)  # fmt: skip
