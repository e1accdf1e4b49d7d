"""Arithmetic that CUDA C has no name for, by the rules of `docs/semantics.md`.

Each function is defined in the text of the kernels that call it; the guards are for texts that are
compiled together. One template parameter at most: macros take a comma for an argument's end.
"""

from __future__ import annotations

from collections.abc import Iterable

_BODIES = {
    # One that compares with nothing stays where it is `a`.
    "tw_maximum": "template <class T> TW_DEVICE T tw_maximum(T a, T b) { return a < b ? b : a; }",
    "tw_minimum": "template <class T> TW_DEVICE T tw_minimum(T a, T b) { return a > b ? b : a; }",
    # Division by 0 is one by 1, and the least number by -1 wraps around.
    "tw_quotient": """\
template <class T> TW_DEVICE T tw_quotient(T a, T b) {
  if (b == 0) return a;
  if ((T)-1 < (T)0 && b == (T)-1) return (T)(0ull - (unsigned long long)a);
  return (T)(a / b);
}""",
    "tw_remainder": """\
template <class T> TW_DEVICE T tw_remainder(T a, T b) {
  if (b == 0 || ((T)-1 < (T)0 && b == (T)-1)) return 0;
  return (T)(a % b);
}""",
    "tw_floordiv": """\
template <class T> TW_DEVICE T tw_floordiv(T a, T b) {
  const T q = tw_quotient<T>(a, b), r = tw_remainder<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;
}""",
    "tw_modulo": """\
template <class T> TW_DEVICE T tw_modulo(T a, T b) {
  const T r = tw_remainder<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}""",
    "tw_left": """\
template <class T> TW_DEVICE T tw_left(T a, T b) {
  if (b < 0 || (unsigned long long)b >= 8 * sizeof(T)) return 0;
  return sizeof(T) < 8 ? (T)((unsigned)a << b) : (T)((unsigned long long)a << b);
}""",
    "tw_right": """\
template <class T> TW_DEVICE T tw_right(T a, T b) {
  if (b < 0 || (unsigned long long)b >= 8 * sizeof(T)) return a < 0 ? (T)-1 : (T)0;
  return (T)(a >> b);
}""",
    "tw_sigmoid": """\
TW_DEVICE float tw_sigmoid(float x) {
  const float small = expf(-fabsf(x));
  return (x >= 0.0f ? 1.0f : small) / (1.0f + small);
}
TW_DEVICE double tw_sigmoid(double x) {
  const double small = exp(-fabs(x));
  return (x >= 0.0 ? 1.0 : small) / (1.0 + small);
}""",
    # The upper half of the numbers is converted 2^63 lower.
    "tw_to_uint64": """\
template <class T> TW_DEVICE unsigned long long tw_to_uint64(T x) {
  const T half = (T)9223372036854775808.0;
  if (x < half) return (unsigned long long)(long long)x;
  return (unsigned long long)(long long)(x - half) ^ 0x8000000000000000ull;
}""",
}
_NEEDS = {
    "tw_floordiv": ("tw_quotient", "tw_remainder"),
    "tw_modulo": ("tw_remainder",),
}


def definitions(names: Iterable[str]) -> str:
    """The functions of these names, and those that they call."""
    wanted = {n for name in names for n in (name, *_NEEDS.get(name, ()))}
    out = []
    for name, body in _BODIES.items():
        if name in wanted:
            guard = name.upper()
            out.append(f"#ifndef {guard}\n#define {guard}\n{body}\n#endif\n")
    return "".join(out)
