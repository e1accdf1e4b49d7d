// What was wrong, in words. All is counted; what is said of one line is said once, and only what
// was found first.

#include "runtime.h"

namespace {

constexpr size_t KEPT = 12;

struct Said {
  int line;
  const char *name, *what;  // a library's constants: alike where they are one
};
std::vector<Said> said;
std::string texts;
int count = 0;

bool is_new(int line, const char* name, const char* what) {
  ++count;
  if (said.size() >= KEPT) return false;
  for (const Said& one : said)
    if (one.line == line && one.name == name && one.what == what) return false;
  said.push_back({line, name, what});
  return true;
}

std::string place(int line) { return line > 0 ? "line " + std::to_string(line) + ": " : ""; }

}  // namespace

void report_text(int line, const std::string& text) {
  if (!is_new(line, nullptr, nullptr)) return;
  texts += place(line) + text + " (block " + std::to_string(launch.shared->block.x) + ")\n";
}

void report(int line, const char* name, long index, const char* what, int other) {
  if (!is_new(line, name, what)) return;
  texts += place(line) + name;
  if (index != TW_NO_INDEX) texts += "[" + std::to_string(index) + "]";
  texts += std::string(" ") + what + " (block " + std::to_string(launch.shared->block.x) +
           ", thread " + std::to_string(launch.running);
  if (other >= 0) texts += ", other thread " + std::to_string(other);
  texts += ")\n";
}

void fail(int line, const char* name, long index, const char* what) {
  report(line, name, index, what, -1);
  abandon();
}

void clear_reports() {
  said.clear();
  texts.clear();
  count = 0;
}

extern "C" const char* tw_reports() { return texts.c_str(); }
extern "C" int tw_report_count() { return count; }
