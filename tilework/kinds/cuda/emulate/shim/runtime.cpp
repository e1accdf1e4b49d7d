// Launches. What Python calls is at the end.

#include "runtime.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace {

tw_runtime runtime;

std::vector<int> ordered(int n, int order, std::mt19937& random) {
  std::vector<int> out((size_t)n);
  std::iota(out.begin(), out.end(), 0);
  if (order == 1) std::reverse(out.begin(), out.end());
  if (order >= 2) std::shuffle(out.begin(), out.end(), random);
  return out;
}

bool run_grid(int grid, int threads, int order) {
  std::mt19937 random((unsigned)order);
  for (int block : ordered(grid, order, random)) {
    runtime.block = {(unsigned)block, 0, 0};
    const std::vector<int> warps = ordered((threads + WARP - 1) / WARP, order, random);
    if (!run_block(warps, ordered(WARP, order, random))) return false;
  }
  return true;
}

}  // namespace

extern "C" tw_runtime* tw_start() {
  runtime.begin_block = begin_block;
  runtime.barrier = wait_at_barrier;
  runtime.together = wait_for_warp;
  runtime.copy = start_copy;
  runtime.commit = commit_copies;
  runtime.wait = land_copies;
  runtime.report = report;
  runtime.fail = fail;
  runtime.trace = note_traffic;
  launch.shared = &runtime;
  return &runtime;
}

// Returns the number of things that were wrong: tw_reports() tells the first ones.
extern "C" int tw_launch(const tw_entry* entry, void* const* pointers, int grid, int threads,
                         long dynamic_bytes, int order, int tracing);
extern "C" int tw_report_count();
extern "C" int tw_launch(const tw_entry* entry, void* const* pointers, int grid, int threads,
                         long dynamic_bytes, int order, int tracing) {
  clear_reports();
  launch.entry = entry;
  launch.dynamic_bytes = dynamic_bytes;
  launch.failed = false;
  launch.fibres.resize((size_t)threads);
  launch.warp_epochs.assign((size_t)(threads + WARP - 1) / WARP, 0);
  runtime.blocks = {(unsigned)grid, 1, 1};
  runtime.threads = {(unsigned)threads, 1, 1};
  runtime.thread = runtime.block = {0, 0, 0};
  runtime.tracing = tracing;
  // Epochs are ints: with 2^31 barriers of one process behind us, cells start anew.
  if (runtime.epoch > (1 << 30)) runtime.epoch = 0, cells.clear();
  if (claim_arguments(*entry, pointers)) run_grid(grid, threads, order);
  // After a failure, threads that wait are left where they are.
  for (Fibre& fibre : launch.fibres)
    if (fibre.stack) stacks.give_back(fibre.stack), fibre.stack = nullptr;
  return tw_report_count();
}
