// Who runs when. A warp goes on as soon as all its own lanes have arrived, so that one warp is as
// far ahead of another as barriers allow; lanes run one after another from barrier to barrier.

#include <stdlib.h>

#include <algorithm>

#include "runtime.h"

Launch launch;
Stacks stacks;

namespace {

void leave() { switch_to(&launch.fibres[launch.running].context, launch.scheduler); }

void start() {
  launch.entry->call(launch.arguments.data());
  launch.fibres[launch.running].state = State::done;
  leave();
  abort();  // nobody goes on with a thread that is done
}

bool resume(int thread) {
  Fibre& fibre = launch.fibres[thread];
  tw_runtime& rt = *launch.shared;
  if (fibre.state == State::unstarted) {
    fibre.stack = stacks.take();
    if (!fibre.stack) {
      report_text(0, "no memory for the stacks of a block's threads");
      return false;
    }
    fibre.context = begin_on(fibre.stack, start);
  }
  fibre.state = State::ready;
  launch.running = rt.self = thread;
  rt.thread.x = (unsigned)thread;
  rt.warp_epoch = launch.warp_epochs[thread / WARP];
  switch_to(&launch.scheduler, fibre.context);
  if (fibre.state == State::done || launch.failed) {
    stacks.give_back(fibre.stack);
    fibre.stack = nullptr;
  }
  return !launch.failed;
}

std::string where(const Fibre& fibre) {
  const int thread = (int)(&fibre - launch.fibres.data());
  const std::string who = "thread " + std::to_string(thread);
  switch (fibre.state) {
    case State::done:
      return who + " has ended";
    case State::at_barrier:
      return who + " waits at the barrier of line " + std::to_string(fibre.line);
    default:
      return who + " waits at the " + name_of(fibre.what) + " of line " +
             std::to_string(fibre.line);
  }
}

void report_divergence(const char* of, const Fibre& a, const Fibre& b) {
  const Fibre& named = a.state == State::done ? b : a;
  report_text(named.line, std::string(of) + " diverges: " + where(a) + ", " + where(b));
}

bool alike(const Fibre& a, const Fibre& b) {
  return a.state == b.state && (a.state == State::done || a.line == b.line) &&
         (a.state != State::with_warp || a.what == b.what);
}

// Runs a warp until all its lanes wait for the block or have ended.
bool run_warp(int warp, const std::vector<int>& lanes) {
  const int first = warp * WARP, threads = (int)launch.fibres.size();
  Fibre* fibres = &launch.fibres[first];
  const int count = std::min(WARP, threads - first);
  for (;;) {
    for (int lane : lanes) {
      if (lane >= count) continue;
      const State state = fibres[lane].state;
      if ((state == State::ready || state == State::unstarted) && !resume(first + lane))
        return false;
    }
    const Fibre* waiting = std::find_if(fibres, fibres + count, [](const Fibre& f) {
      return f.state == State::with_warp;
    });
    if (waiting == fibres + count) return true;
    for (int i = 0; i < count; ++i)
      if (!alike(*waiting, fibres[i])) {
        report_divergence("a warp", *waiting, fibres[i]);
        return false;
      }
    if (!work_together(fibres, count)) return false;
    if (waiting->what == TW_SYNC) ++launch.warp_epochs[warp];
    for (int i = 0; i < count; ++i) fibres[i].state = State::ready;
  }
}

}  // namespace

bool run_block(const std::vector<int>& warps, const std::vector<int>& lanes) {
  std::vector<Fibre>& fibres = launch.fibres;
  tw_runtime& rt = *launch.shared;
  rt.first_epoch = ++rt.epoch;
  rt.fresh = 1;
  for (Fibre& fibre : fibres) {
    fibre.state = State::unstarted;
    fibre.copies.clear();
    fibre.groups.clear();
  }
  for (;;) {
    for (int warp : warps)
      if (!run_warp(warp, lanes)) return false;
    for (const Fibre& fibre : fibres)
      if (!alike(fibres[0], fibre)) {
        report_divergence("a block", fibres[0], fibre);
        return false;
      }
    if (rt.tracing) count_traffic((int)fibres.size());
    if (fibres[0].state == State::done) return true;
    ++rt.epoch;
    for (Fibre& fibre : fibres) fibre.state = State::ready;
  }
}

void wait_at_barrier(int line) {
  Fibre& fibre = launch.fibres[launch.running];
  fibre.state = State::at_barrier;
  fibre.line = line;
  leave();
}

void wait_for_warp(int line, tw_operation what, void* lane) {
  Fibre& fibre = launch.fibres[launch.running];
  fibre.state = State::with_warp;
  fibre.line = line;
  fibre.what = what;
  fibre.lane = lane;
  leave();
}

void abandon() {
  launch.failed = true;
  leave();
  abort();
}
