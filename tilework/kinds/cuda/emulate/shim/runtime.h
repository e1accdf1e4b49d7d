// The parts of the runtime, for each other.

#ifndef TW_RUNTIME_H
#define TW_RUNTIME_H

#include <stdint.h>

#include <string>
#include <vector>

#include "fibres.h"
#include "interface.h"

constexpr int MAX_THREADS = 1024, WARP = 32;
constexpr long MAX_BLOCK_BYTES = 256 << 10;

enum class State { unstarted, ready, at_barrier, with_warp, done };

// An asynchronous copy under way.
struct Copy {
  void* to;
  const void* from;
  int bytes, first_cell;
};

struct Fibre {
  State state;
  int line;           // where it waits
  tw_operation what;  // what its warp does together
  void* lane;         // what it hands in
  char* stack;
  tw_context* context;
  std::vector<Copy> copies;
  std::vector<size_t> groups;  // how many copies lie before the end of each committed group
};

// Everything that a launch changes. There is one, as one thread runs one launch at a time.
struct Launch {
  tw_runtime* shared;  // what kernels see
  const tw_entry* entry;
  std::vector<tw_argument> arguments;
  std::vector<std::vector<tw_owner>> owners;
  std::vector<Fibre> fibres;
  std::vector<int> warp_epochs;
  long dynamic_bytes;
  int running;  // thread
  bool failed;
  tw_context* scheduler;
};
extern Launch launch;
extern Stacks stacks;

// scheduler.cpp: runs a block, false where it cannot be finished
bool run_block(const std::vector<int>& warps, const std::vector<int>& lanes);
void wait_at_barrier(int line);
void wait_for_warp(int line, tw_operation what, void* lane);
[[noreturn]] void abandon();

// warps.cpp: what lanes have handed in becomes their results
bool work_together(Fibre* lanes, int count);
const char* name_of(tw_operation);

// memory.cpp
void begin_block(void* memory, long bytes, int dynamic);
void start_copy(void* to, const void* from, int bytes, int first_cell);
void commit_copies();
void land_copies(int left);
// Owners of what is written; false where arguments lie on each other that must not.
bool claim_arguments(const tw_entry& entry, void* const* pointers);
extern std::vector<tw_cell> cells;

// reports.cpp
void report(int line, const char* name, long index, const char* what, int other);
void report_text(int line, const std::string& text);
void fail(int line, const char* name, long index, const char* what);
void clear_reports();

// traffic.cpp
void note_traffic(tw_traffic kind, int site, long offset, int bytes);
void count_traffic(int threads);

#endif
