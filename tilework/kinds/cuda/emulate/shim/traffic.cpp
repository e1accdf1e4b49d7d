// Counts accesses as a device would make them: by warp, in sectors and wavefronts.
//
// The lanes' n-th accesses at one place of the text since the last barrier are one instruction.

#include <algorithm>
#include <map>
#include <utility>

#include "runtime.h"

namespace {

constexpr long SECTOR = 32, BANKS = 32, BANK_BYTES = 4, PASS_BYTES = 128;

struct Access {
  int lane;
  long offset;
};
struct Instruction {
  tw_traffic kind;
  int bytes;  // of one lane
  std::vector<Access> accesses;
};
using Key = std::pair<int, int>;  // place in the text, how often a lane has been there

struct Warp {
  std::map<Key, Instruction> instructions;
  std::map<int, int> visits[WARP];
};
Warp warps[MAX_THREADS / WARP];
double counts[4][3];  // by kind: instructions; sectors or wavefronts; accesses of lanes

double sectors(const Instruction& one) {
  std::vector<long> touched;
  for (const Access& a : one.accesses)
    for (long at = a.offset / SECTOR; at <= (a.offset + one.bytes - 1) / SECTOR; ++at)
      touched.push_back(at);
  std::sort(touched.begin(), touched.end());
  return (double)(std::unique(touched.begin(), touched.end()) - touched.begin());
}

// A pass serves at most 128 bytes: vectors of 8 bytes go by halves of a warp, of 16 by quarters.
// In each, the bank with the most different words decides.
double wavefronts(const Instruction& one) {
  const int lanes = (int)std::min<long>(WARP, PASS_BYTES / one.bytes);
  double total = 0;
  for (int first = 0; first < WARP; first += lanes) {
    std::vector<long> words;
    for (const Access& a : one.accesses) {
      if (a.lane < first || a.lane >= first + lanes) continue;
      const long end = (a.offset + one.bytes - 1) / BANK_BYTES;
      for (long at = a.offset / BANK_BYTES; at <= end; ++at) words.push_back(at);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int most = 0, by_bank[BANKS] = {};
    for (long word : words) most = std::max(most, ++by_bank[word % BANKS]);
    total += most;
  }
  return total;
}

}  // namespace

void note_traffic(tw_traffic kind, int site, long offset, int bytes) {
  if (offset < 0) return;  // it has been reported
  Warp& warp = warps[launch.running / WARP];
  const int lane = launch.running % WARP;
  Instruction& one = warp.instructions[{site, warp.visits[lane][site]++}];
  one.kind = kind;
  one.bytes = bytes;
  one.accesses.push_back({lane, offset});
}

void count_traffic(int threads) {
  for (int w = 0; w * WARP < threads; ++w) {
    for (const auto& entry : warps[w].instructions) {
      const Instruction& one = entry.second;
      counts[one.kind][0] += 1;
      counts[one.kind][1] += one.kind <= TW_GLOBAL_STORE ? sectors(one) : wavefronts(one);
      counts[one.kind][2] += (double)one.accesses.size();
    }
    warps[w].instructions.clear();
    for (auto& visits : warps[w].visits) visits.clear();
  }
}

extern "C" void tw_clear_traffic() {
  for (auto& kind : counts)
    for (double& n : kind) n = 0;
  for (Warp& warp : warps) {
    warp.instructions.clear();
    for (auto& visits : warp.visits) visits.clear();
  }
}
extern "C" const double* tw_traffic_counts() { return &counts[0][0]; }
