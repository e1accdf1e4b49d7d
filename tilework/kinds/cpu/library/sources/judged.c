/* What the runtime of threads has seen of runs, by their symbols: see judged() of executor.py. */

enum { KEPT_JUDGED = 64 };
enum { SITE_WORDS = 8, STATE = 3, UNTRIED = 0, SETTLED = 2 }; /* of a record: llvm/judge.ll */
enum { NEAR = 8 }; /* steps of a quarter that a choice of threads holds for */

/* One record, of runs whose symbols differ by less than a quarter. */
typedef struct {
  _Alignas(ALIGN) int64_t record[SITE_WORDS];
  int64_t about[NUM_SYMBOLS];
} judged;

/* A number by its first three binary digits, and how far it is to the next such number. */
static int64_t quarter(int64_t number) {
  int digits = number ? 64 - __builtin_clzll((uint64_t)number) : 0;
  return (int64_t)1 << (digits > 3 ? digits - 3 : 0);
}
static int64_t about(int64_t number) { return number / quarter(number) * quarter(number); }

static judged *judged_of(judged *all, uint32_t count, const int64_t *where) {
  for (uint32_t i = 0; i < count; i++)
    if (!memcmp(all[i].about, where, sizeof all[i].about)) return &all[i];
  return NULL;
}

/* A choice that was made for less or more of one symbol, the nearest first: next to a past that
 * grows, each run would try anew, else. */
static const judged *settled_near(judged *all, uint32_t count, const int64_t *here) {
  int64_t there[NUM_SYMBOLS];
  for (int s = 0; s < NUM_SYMBOLS; s++)
    for (int up = 0; up < 2; up++) {
      memcpy(there, here, sizeof there);
      for (int step = 0; step < NEAR && (up || there[s]); step++) {
        there[s] = up ? there[s] + quarter(there[s]) : about(there[s] - 1);
        const judged *near = judged_of(all, count, there);
        if (!near) break;
        if (near->record[STATE] >= SETTLED) return near;
      }
    }
  return NULL;
}

/* The record of a point; where there is none yet, it takes the place of the eldest. */
static int64_t *record_at(judged *all, uint32_t *made, const int64_t *at) {
  int64_t here[NUM_SYMBOLS];
  for (int s = 0; s < NUM_SYMBOLS; s++) here[s] = about(at[s]);
  uint32_t count = *made < KEPT_JUDGED ? *made : KEPT_JUDGED;
  judged *own = judged_of(all, count, here);
  if (!own) {
    own = &all[(*made)++ % KEPT_JUDGED];
    memset(own->record, 0, sizeof own->record);
    memcpy(own->about, here, sizeof own->about);
  }
  if (own->record[STATE] == UNTRIED) {
    const judged *near = settled_near(all, count, here);
    if (near) memcpy(own->record, near->record, sizeof own->record);
  }
  return own->record;
}
