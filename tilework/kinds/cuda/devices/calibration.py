"""A fixed piece of work for a GPU: multiply-adds in registers, on all multiprocessors."""

from __future__ import annotations

from tilework.kinds.cuda.drivers.driver import Driver
from tilework.kinds.cuda.drivers.memory import Memory
from tilework.kinds.cuda.drivers.stream import GraphStopwatch, Stream
from tilework.kinds.cuda.source.nvrtc import cubin

ENTRY = "tw_calibration"
STEPS = 2048
"""Iterations of a thread, of eight multiply-adds each: some 100 us on any device."""

_BLOCKS_PER_SM, _THREADS, _RUNS = 4, 256, 7
TEXT = f"""
extern "C" __global__ void __launch_bounds__({_THREADS}) {ENTRY}(TW_OUT(float, out, 0)) {{
  float a[8];
  const float x = 0.999f + 1e-6f * (float)threadIdx.x;
#pragma unroll
  for (int j = 0; j < 8; ++j) a[j] = (float)(j + 1);
#pragma unroll 4
  for (int i = 0; i < {STEPS}; ++i) {{
#pragma unroll
    for (int j = 0; j < 8; ++j) a[j] = fmaf(a[j], x, 0.5f);
  }}
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += a[j];
  TW_ST(out, (int)(blockIdx.x * {_THREADS} + threadIdx.x), sum);
}}
"""


class Calibration:
    """The work, compiled and loaded.

    It uses neither shared memory nor caches, so that its time moves with the clock alone.

    Raises:
        TargetError: there is no compiler.
    """

    def __init__(self, driver: Driver, stream: Stream, arch: str) -> None:
        self._driver, self._stream = driver, stream
        self._blocks = _BLOCKS_PER_SM * driver.facts().sms
        self._code = driver.load({ENTRY: cubin(TEXT, arch, ENTRY)})
        self._function = self._code.function(ENTRY)
        self._out = Memory(driver, 4 * self._blocks * _THREADS)
        self._run()
        driver.streams.synchronize(stream.number)

    def seconds(self) -> float:
        """The least of some runs."""
        with GraphStopwatch(self._stream) as watch:
            return min(watch.time(self._run, 1).seconds for _ in range(_RUNS))

    def _run(self) -> None:
        pointers = (self._out.address,)
        self._driver.launch(
            self._function, self._blocks, _THREADS, 0, pointers, self._stream.number
        )
