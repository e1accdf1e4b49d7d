/* What this CPU can run, and the level that is best on it. */

/* A feature by LLVM's name: where CPUID tells of it, and what the system must save for it. */
typedef struct {
  const char *name;
  uint32_t leaf, subleaf;
  uint8_t word; /* 0 to 3: eax, ebx, ecx, edx */
  uint8_t bit;
  uint32_t state; /* bits of XCR0 */
} feature;

#if defined(__x86_64__)
#include <cpuid.h>

enum { NONE = 0, YMM = 0x06, ZMM = 0xe6, TILES = 0x60000 };

static const feature features[] = {
    {"sse2", 1, 0, 3, 26, NONE},
    {"sse3", 1, 0, 2, 0, NONE},
    {"ssse3", 1, 0, 2, 9, NONE},
    {"sse4.1", 1, 0, 2, 19, NONE},
    {"sse4.2", 1, 0, 2, 20, NONE},
    {"movbe", 1, 0, 2, 22, NONE},
    {"popcnt", 1, 0, 2, 23, NONE},
    {"fma", 1, 0, 2, 12, YMM},
    {"avx", 1, 0, 2, 28, YMM},
    {"f16c", 1, 0, 2, 29, YMM},
    {"bmi", 7, 0, 1, 3, NONE},
    {"avx2", 7, 0, 1, 5, YMM},
    {"bmi2", 7, 0, 1, 8, NONE},
    {"avx512f", 7, 0, 1, 16, ZMM},
    {"avx512dq", 7, 0, 1, 17, ZMM},
    {"avx512ifma", 7, 0, 1, 21, ZMM},
    {"avx512cd", 7, 0, 1, 28, ZMM},
    {"avx512bw", 7, 0, 1, 30, ZMM},
    {"avx512vl", 7, 0, 1, 31, ZMM},
    {"avx512vbmi", 7, 0, 2, 1, ZMM},
    {"avx512vbmi2", 7, 0, 2, 6, ZMM},
    {"gfni", 7, 0, 2, 8, NONE},
    {"avx512vnni", 7, 0, 2, 11, ZMM},
    {"avx512bitalg", 7, 0, 2, 12, ZMM},
    {"avx512vpopcntdq", 7, 0, 2, 14, ZMM},
    {"avx512fp16", 7, 0, 3, 23, ZMM},
    {"amx-bf16", 7, 0, 3, 22, TILES},
    {"amx-tile", 7, 0, 3, 24, TILES},
    {"amx-int8", 7, 0, 3, 25, TILES},
    {"avxvnni", 7, 1, 0, 4, YMM},
    {"avx512bf16", 7, 1, 0, 5, ZMM},
    {"avxifma", 7, 1, 0, 23, YMM},
    {"avxvnniint8", 7, 1, 3, 4, YMM},
    {"avxneconvert", 7, 1, 3, 5, YMM},
    {"avxvnniint16", 7, 1, 3, 10, YMM},
    {"lzcnt", 0x80000001, 0, 2, 5, NONE},
    {"sse4a", 0x80000001, 0, 2, 6, NONE},
    {"prfchw", 0x80000001, 0, 2, 8, NONE},
    {"xop", 0x80000001, 0, 2, 11, YMM},
    {"fma4", 0x80000001, 0, 2, 16, YMM},
};

static uint32_t saved_states(void) {
  uint32_t words[4], low, high;
  __cpuid(1, words[0], words[1], words[2], words[3]);
  if (!(words[2] >> 27 & 1)) return 0;
  /* volatile, or it is moved to where the processor has not said yet that it knows it */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* Linux wants a process to ask before it uses tiles, once: arch_prctl(ARCH_REQ_XCOMP_PERM, 18). */
static int tiles_permitted(void) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(158), "D"(0x1023), "S"(18)
                   : "rcx", "r11", "memory");
  return result == 0;
}

static int has(const feature *f) {
  uint32_t words[4];
  __cpuid(f->leaf & 0x80000000, words[0], words[1], words[2], words[3]);
  if (words[0] < f->leaf) return 0;
  if (f->subleaf) {
    __cpuid_count(f->leaf, 0, words[0], words[1], words[2], words[3]);
    if (words[0] < f->subleaf) return 0;
  }
  __cpuid_count(f->leaf, f->subleaf, words[0], words[1], words[2], words[3]);
  if (!(words[f->word] >> f->bit & 1) || (saved_states() & f->state) != f->state) return 0;
  return f->state != TILES || tiles_permitted();
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

static const feature features[] = {
    {"neon", 0, 0, 0, 1, 0},
    {"sve", 0, 0, 0, 22, 0},
};

static int has(const feature *f) { return getauxval(AT_HWCAP) >> f->bit & 1; }

#else
#error "there is no list of this processor's features here"
#endif

/* The words of `needs` that this CPU lacks, in `lacking`; returns how many. */
static int lacking_features(const char *needs, char *lacking, size_t room) {
  int count = 0;
  size_t used = 0;
  lacking[0] = 0;
  while (*needs) {
    size_t length = strcspn(needs, " ");
    int found = 0;
    for (size_t i = 0; i < sizeof features / sizeof *features && !found; i++)
      if (strlen(features[i].name) == length && !memcmp(features[i].name, needs, length))
        found = has(&features[i]);
    if (!found) {
      int more = snprintf(lacking + used, room - used, "%s%.*s", count++ ? ", " : "", (int)length,
                          needs);
      used = used + (size_t)more < room ? used + (size_t)more : room - 1;
    }
    needs += length + (needs[length] == ' ');
  }
  return count;
}

/* The number of the level to run at, or -1. */
static int choose_level(const char *wanted) {
  const tw_description *d = &tw_description_here;
  char lacking[300];
  for (int i = 0; i < d->num_levels; i++) {
    if (wanted && strcmp(wanted, d->levels[i].name)) continue;
    if (!lacking_features(d->levels[i].needs, lacking, sizeof lacking)) return i;
    if (wanted) return fail("level %s needs %s, which this CPU lacks", wanted, lacking);
  }
  if (wanted) {
    char known[300] = "";
    for (int i = 0; i < d->num_levels; i++)
      snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
               d->levels[i].name);
    return fail("there is no level %s here; levels are %s", wanted, known);
  }
  const tw_level *least = &d->levels[d->num_levels - 1];
  return fail("this CPU can run no level of the library: %s, the least of them, needs %s, which it "
              "lacks; compile the network for this CPU", least->name, lacking);
}
