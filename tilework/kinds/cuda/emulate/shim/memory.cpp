// Shared memory, asynchronous copies, and who wrote what.

#include <string.h>

#include <algorithm>

#include "runtime.h"

std::vector<tw_cell> cells;

// 0x7f7f7f7f is 3.4e38 as a float: unlike NaN it does not vanish in fmaxf(x, 0).
void begin_block(void* memory, long bytes, int dynamic) {
  launch.shared->fresh = 0;
  if (bytes > MAX_BLOCK_BYTES || (dynamic && bytes > launch.dynamic_bytes)) {
    report_text(0, "the kernel needs " + std::to_string(bytes) +
                       " bytes of shared memory, the launch gives " +
                       std::to_string(dynamic ? launch.dynamic_bytes : MAX_BLOCK_BYTES));
    abandon();
  }
  memset(memory, 0x7f, (size_t)bytes);
}

void start_copy(void* to, const void* from, int bytes, int first_cell) {
  launch.fibres[launch.running].copies.push_back({to, from, bytes, first_cell});
}

void commit_copies() {
  Fibre& fibre = launch.fibres[launch.running];
  fibre.groups.push_back(fibre.copies.size());
}

namespace {

void land(const Copy& copy) {
  if (copy.from)
    memcpy(copy.to, copy.from, (size_t)copy.bytes);
  else
    memset(copy.to, 0, (size_t)copy.bytes);
  if (copy.first_cell < 0) return;
  const tw_runtime& rt = *launch.shared;
  for (int i = 0; i < copy.bytes / launch.entry->granule; ++i) {
    tw_cell& cell = cells[(size_t)(copy.first_cell + i)];
    cell.copying = -1;
    cell.written = rt.epoch;
    cell.written_in_warp = rt.warp_epoch;
    cell.writer = (short)rt.self;
  }
}

}  // namespace

// Data land here and not before, which is as late as a device may take.
void land_copies(int left) {
  Fibre& fibre = launch.fibres[launch.running];
  const long groups = (long)fibre.groups.size() - left;
  if (groups <= 0) return;
  const size_t landed = fibre.groups[(size_t)groups - 1];
  for (size_t i = 0; i < landed; ++i) land(fibre.copies[i]);
  fibre.copies.erase(fibre.copies.begin(), fibre.copies.begin() + (long)landed);
  fibre.groups.erase(fibre.groups.begin(), fibre.groups.begin() + groups);
  for (size_t& end : fibre.groups) end -= landed;
}

bool claim_arguments(const tw_entry& entry, void* const* pointers) {
  launch.arguments.assign((size_t)entry.count, {});
  launch.owners.assign((size_t)entry.count, {});
  for (int i = 0; i < entry.count; ++i) {
    launch.arguments[i].pointer = pointers[i];
    const long bytes = entry.parameters[i].bytes;
    if (bytes && (uintptr_t)pointers[i] % (uintptr_t)bytes) {
      report_text(0, "argument " + std::to_string(i) + " is not at a multiple of its elements' " +
                         std::to_string(bytes) + " bytes");
      return false;
    }
  }
  if (!entry.checked) return true;
  if (cells.empty()) cells.assign((size_t)MAX_BLOCK_BYTES, {-1, -1, -1, -1, -1, -1, 0, -1, -1});
  launch.shared->cells = cells.data();
  for (int i = 0; i < entry.count; ++i)
    if (entry.parameters[i].role == TW_ROLE_OUT) {
      launch.owners[i].assign((size_t)entry.parameters[i].elements, {});
      launch.arguments[i].owners = launch.owners[i].data();
    }
  for (int i = 0; i < entry.count; ++i)
    for (int j = 0; j < entry.count; ++j) {
      const tw_parameter &out = entry.parameters[i], &other = entry.parameters[j];
      if (i == j || out.role != TW_ROLE_OUT) continue;
      const char *a = (const char*)pointers[i], *b = (const char*)pointers[j];
      if (a + out.elements * out.bytes <= b || b + other.elements * other.bytes <= a) continue;
      if (other.role == TW_ROLE_SAME && a == b && out.bytes == other.bytes &&
          out.elements >= other.elements) {
        launch.arguments[j].owners = launch.arguments[i].owners;
        continue;
      }
      report_text(0, "argument " + std::to_string(i) + ", which is written, lies on argument " +
                         std::to_string(j));
      return false;
    }
  return true;
}
