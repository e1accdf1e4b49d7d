// What was wrong, in words. The first few reports are kept, all are counted.

#include "runtime.h"

namespace {
constexpr int KEPT = 8;
std::string texts;
int count = 0;
}  // namespace

void report_text(int line, const std::string& text) {
  if (count++ >= KEPT) return;
  if (line > 0) texts += "line " + std::to_string(line) + ": ";
  texts += text + " (block " + std::to_string(launch.shared->block.x) + ")\n";
}

void report(int line, const char* name, long index, const char* what, int other) {
  if (count++ >= KEPT) return;
  texts += "line " + std::to_string(line) + ": " + name + "[" + std::to_string(index) + "] " +
           what + " (block " + std::to_string(launch.shared->block.x) + ", thread " +
           std::to_string(launch.running);
  if (other >= 0) texts += ", other thread " + std::to_string(other);
  texts += ")\n";
}

void fail(int line, const char* name, long index, const char* what) {
  report(line, name, index, what, -1);
  abandon();
}

void clear_reports() {
  texts.clear();
  count = 0;
}

extern "C" const char* tw_reports() { return texts.c_str(); }
extern "C" int tw_report_count() { return count; }
