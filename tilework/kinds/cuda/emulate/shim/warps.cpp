// What the lanes of a warp do together: when all have arrived, once for all of them.

#include <string.h>

#include "runtime.h"

#include "names.h"  // after the library's headers, whose names it takes

namespace {

template <class T>
T& lane_of(Fibre* lanes, int i) {
  return *(T*)lanes[i].lane;
}

bool shuffle(Fibre* lanes, int count) {
  for (int i = 0; i < count; ++i) {
    tw_shuffle& mine = lane_of<tw_shuffle>(lanes, i);
    const int other = i ^ mine.distance;
    if (other < 0 || other >= count) {
      report_text(lanes[i].line, "lane " + std::to_string(i) + " asks lane " +
                                     std::to_string(other) + " of a warp of " +
                                     std::to_string(count));
      return false;
    }
    mine.result = lane_of<tw_shuffle>(lanes, other).value;
  }
  return true;
}

bool whole(Fibre* lanes, int count) {
  if (count == WARP) return true;
  report_text(lanes[0].line, std::string("the ") + name_of(lanes[0].what) +
                                 " needs a whole warp, this one has " + std::to_string(count) +
                                 " lanes");
  return false;
}

// Lane l gets elements 2 (l % 4) and the next of row l / 4 of each matrix; transposed, of its
// column.
void load_matrices(Fibre* lanes, bool transposed) {
  for (int i = 0; i < WARP; ++i)
    for (int m = 0; m < 4; ++m) {
      uint16_t pair[2];
      for (int k = 0; k < 2; ++k) {
        const int row = transposed ? 2 * (i % 4) + k : i / 4;
        const int column = transposed ? i / 4 : 2 * (i % 4) + k;
        const char* from = (const char*)lane_of<tw_matrices>(lanes, 8 * m + row).row;
        memcpy(&pair[k], from + 2 * column, 2);
      }
      memcpy(&lane_of<tw_matrices>(lanes, i).registers[m], pair, 4);
    }
}

float narrow(tw_operation what, uint32_t bits, int half) {
  const uint16_t low = (uint16_t)(bits >> (16 * half));
  if (what == TW_MULTIPLY_BF16) return tw_float(tw_bf16{low});
  if (what == TW_MULTIPLY_F16) return tw_float(tw_f16{low});
  return tw_bits<float>(bits & 0xffffe000u);  // tf32: the units do not see the lower bits
}

// PTX ISA, fragments of mma.m16n8k16 (16-bit) and m16n8k8 (tf32): with g = lane / 4, t = lane % 4,
// register r of A has row g + 8 (r % 2), of B column g, and both the k of the r-th group of
// registers; a register holds two 16-bit elements or one of tf32.
void multiply(Fibre* lanes, tw_operation what) {
  const int each = what == TW_MULTIPLY_TF32 ? 1 : 2, depth = 8 * each;
  float a[16][16], b[16][8], c[16][8];
  for (int i = 0; i < WARP; ++i) {
    const tw_product& lane = lane_of<tw_product>(lanes, i);
    const int g = i / 4, t = i % 4;
    for (int h = 0; h < each; ++h) {
      for (int r = 0; r < 4; ++r)
        a[g + 8 * (r % 2)][(r / 2) * 4 * each + each * t + h] = narrow(what, lane.a[r], h);
      for (int r = 0; r < 2; ++r) b[r * 4 * each + each * t + h][g] = narrow(what, lane.b[r], h);
    }
    for (int q = 0; q < 4; ++q) c[g + 8 * (q / 2)][2 * t + q % 2] = lane.c[q];
  }
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < depth; ++k)
      for (int n = 0; n < 8; ++n) c[m][n] += a[m][k] * b[k][n];
  for (int i = 0; i < WARP; ++i)
    for (int q = 0; q < 4; ++q)
      lane_of<tw_product>(lanes, i).c[q] = c[i / 4 + 8 * (q / 2)][2 * (i % 4) + q % 2];
}

}  // namespace

bool work_together(Fibre* lanes, int count) {
  const tw_operation what = lanes[0].what;
  switch (what) {
    case TW_SYNC:
      return true;
    case TW_SHUFFLE:
      return shuffle(lanes, count);
    case TW_LOAD_MATRICES:
    case TW_LOAD_TRANSPOSED:
      if (!whole(lanes, count)) return false;
      load_matrices(lanes, what == TW_LOAD_TRANSPOSED);
      return true;
    default:
      if (!whole(lanes, count)) return false;
      multiply(lanes, what);
      return true;
  }
}

const char* name_of(tw_operation what) {
  switch (what) {
    case TW_SYNC:
      return "warp barrier";
    case TW_SHUFFLE:
      return "shuffle";
    case TW_LOAD_MATRICES:
    case TW_LOAD_TRANSPOSED:
      return "ldmatrix";
    default:
      return "mma";
  }
}
