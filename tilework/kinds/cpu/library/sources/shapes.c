/* The part of a library that is there where a run brings the shapes: symbols, sizes, places.
 *
 * An extent is a sum of products of atoms, an atom a symbol or a quotient of an extent by a number.
 * A site is the network at a point: shapes and sizes in numbers, and where everything lies, placed
 * as Tilework places it in Python (runtime/sites.py, runtime/arena.py), with the same checks.
 */

enum { KEPT_SITES = 32 };
#define MOST_BYTES ((int64_t)1 << 46)

#include "judged.c"

typedef struct {
  int64_t at[NUM_SYMBOLS]; /* kernels are given the addresses of these */
  tw_value inputs[NUM_INPUTS + 1], outputs[NUM_OUTPUTS + 1];
  int64_t dimensions[NUM_DIMENSIONS + 1];
  int64_t behind[NUM_IO]; /* bytes from the beginning of a room to the first new position */
  int64_t arena_bytes, workspace_bytes;
  int idle;                   /* no output has elements: nothing is computed */
  const unsigned char *arena; /* that the table points into */
  void *table[];              /* the last one: a record of the runtime of threads */
} site;

/* --- extents ------------------------------------------------------------------------------ */

static int64_t value_of(uint32_t extent, const int64_t *at, int *over);

static int64_t value_of_atom(uint32_t atom, const int64_t *at, int *over) {
  if (atom < NUM_SYMBOLS) return at[atom];
  const quotient *q = &quotients[atom - NUM_SYMBOLS];
  int64_t whole = value_of(q->whole, at, over);
  return whole / q->by - (whole % q->by < 0);
}

/* An extent at a point; `over` is set where it is too large for 64 bits. */
static int64_t value_of(uint32_t extent, const int64_t *at, int *over) {
  int64_t sum = 0;
  for (uint32_t t = extents[extent]; t < extents[extent + 1]; t++) {
    int64_t product = terms[t].factor;
    for (uint32_t a = terms[t].first; a < terms[t].first + terms[t].count; a++)
      *over |= __builtin_mul_overflow(product, value_of_atom(atoms[a], at, over), &product);
    *over |= __builtin_add_overflow(sum, product, &sum);
  }
  return sum;
}

/* Which symbols an extent depends on. */
static void find_symbols(uint32_t extent, unsigned char *found) {
  uint32_t end = terms[extents[extent + 1]].first;
  for (uint32_t a = terms[extents[extent]].first; a < end; a++)
    if (atoms[a] < NUM_SYMBOLS) found[atoms[a]] = 1;
    else find_symbols(quotients[atoms[a] - NUM_SYMBOLS].whole, found);
}

/* --- symbols ------------------------------------------------------------------------------ */

static int check_symbol(uint32_t number, int64_t value, const char *why) {
  const tw_symbol *s = &symbols[number];
  if ((s->low <= value && value <= s->high) || (!value && or_none[number])) return 0;
  return fail("%s is %lld%s, outside of its range %lld to %lld%s", s->name, (long long)value, why,
              (long long)s->low, (long long)s->high, or_none[number] ? ", or 0" : "");
}

/* What to say of a dimension that is not what its extent is; `at` where all symbols are known. */
static int unfit(uint32_t input, uint32_t d, int64_t given, const int64_t *at) {
  char values[150] = "", ranges[200] = "";
  unsigned char found[NUM_SYMBOLS] = {0};
  uint32_t extent = input_extents[input][d];
  int over = 0;
  find_symbols(extent, found);
  for (int s = 0, first = 1; s < NUM_SYMBOLS; s++) {
    if (!found[s]) continue;
    size_t used = strlen(values), more = strlen(ranges);
    if (at)
      snprintf(values + used, sizeof values - used, "%s%s = %lld", first ? "" : ", ",
               symbols[s].name, (long long)at[s]);
    snprintf(ranges + more, sizeof ranges - more, "%s%s is %lld to %lld", first ? "" : ", ",
             symbols[s].name, (long long)symbols[s].low, (long long)symbols[s].high);
    first = 0;
  }
  const char *name = tw_description_here.inputs[input].name, *text = input_texts[input][d];
  if (!at)
    return fail("dimension %u of input %s is %lld, never %s (%s)", d, name, (long long)given, text,
                ranges);
  return fail("dimension %u of input %s is %lld, not %s = %lld, with %s (%s)", d, name,
              (long long)given, text, (long long)value_of(extent, at, &over), values, ranges);
}

/* The values of all symbols, from the shapes of the inputs, of which every dimension is checked. */
static int solve(const int64_t *const *shapes, int64_t *at) {
  const tw_description *d = &tw_description_here;
  int over = 0;
  for (int i = 0; i < d->num_inputs; i++)
    if (!shapes[i] && d->inputs[i].ndim)
      return fail("there is no shape of input %s", d->inputs[i].name);
  for (int r = 0; r < NUM_SYMBOLS; r++) {
    const rule *by = &rules[r];
    char why[120];
    int64_t given = shapes[by->input][by->dimension], rest;
    if (__builtin_sub_overflow(given, value_of(by->rest, at, &over), &rest) ||
        rest % by->factor || over)
      return unfit(by->input, by->dimension, given, NULL);
    snprintf(why, sizeof why, ", by dimension %u of input %s", by->dimension,
             d->inputs[by->input].name);
    if (check_symbol(by->symbol, rest / by->factor, why)) return -1;
    at[by->symbol] = rest / by->factor;
  }
  for (int i = 0; i < d->num_inputs; i++)
    for (int k = 0; k < d->inputs[i].ndim; k++) {
      const tw_value *v = &d->inputs[i];
      int64_t given = shapes[i][k];
      if (v->shape[k] >= 0 && given != v->shape[k])
        return fail("dimension %d of input %s is %lld, not %lld", k, v->name, (long long)given,
                    (long long)v->shape[k]);
      if (given != value_of(input_extents[i][k], at, &over) || over)
        return unfit((uint32_t)i, (uint32_t)k, given, at);
    }
  return 0;
}

/* --- places ------------------------------------------------------------------------------- */

typedef struct {
  int64_t size;
  uint32_t number, first;
} sized;

typedef struct {
  int64_t begin, end;
  const lifetime *life;
} span;

/* The largest first; of equal ones, what is alive first. */
static int larger(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->size != y->size) return x->size < y->size ? 1 : -1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->number < y->number ? -1 : 1;
}

/* Where values of these sizes lie, so that those alive together share no byte: each at the lowest
 * place that is free all its life. Needs room for as many of `order` and `spans`. */
static int64_t place_values(const code *c, const int64_t *sizes, int64_t *begins, sized *order,
                            span *spans) {
  int64_t arena = 0;
  for (uint32_t i = 0; i < c->num_lifetimes; i++)
    order[i] = (sized){sizes[i], i, c->lifetimes[i].first};
  qsort(order, c->num_lifetimes, sizeof *order, larger);
  for (uint32_t n = 0; n < c->num_lifetimes; n++) {
    const lifetime *own = &c->lifetimes[order[n].number];
    int64_t size = (order[n].size + ALIGN - 1) / ALIGN * ALIGN, end = size;
    for (uint32_t k = 0; k < n; k++) { /* by rising begins */
      const span *s = &spans[k];
      if (s->life->first > own->last || own->first > s->life->last) continue;
      if (end <= s->begin) break;
      if (s->end + size > end) end = s->end + size;
    }
    uint32_t k = n;
    for (; k && spans[k - 1].begin > end - size; k--) spans[k] = spans[k - 1];
    spans[k] = (span){end - size, end, own};
    begins[order[n].number] = end - size;
    if (end > arena) arena = end;
  }
  return arena;
}

/* --- sites -------------------------------------------------------------------------------- */

static int cannot_run(const int64_t *at, const char *wrong) {
  char text[300] = "";
  for (int s = 0; s < NUM_SYMBOLS; s++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s = %lld", s ? ", " : "", symbols[s].name,
             (long long)at[s]);
  }
  return fail("it cannot run at %s: %s", text, wrong);
}

static const tw_room *room_of(uint32_t io) {
  for (int r = 0; r < NUM_ROOMS; r++)
    if ((uint32_t)rooms[r].input == io) return &rooms[r];
  return NULL;
}

/* Shapes and sizes of some values; their dimensions go to `to`. Returns the end of these; NULL where
 * an io buffer is smaller than what lies in it. */
static int64_t *shape_values(tw_value *values, int count, const uint32_t *const *of,
                             const int64_t *found, const int64_t *io_sizes, const uint32_t *io,
                             int64_t *to) {
  for (int i = 0; i < count; i++) {
    tw_value *v = &values[i];
    int64_t bytes = v->bits / 8;
    v->shape = to;
    for (int k = 0; k < v->ndim; k++) bytes *= *to++ = found[of[i][k]];
    v->bytes = io_sizes[io ? io[i] : (uint32_t)i];
    if (room_of(io ? io[i] : (uint32_t)i) ? bytes > v->bytes : bytes != v->bytes) return NULL;
  }
  return to;
}

/* Whether arguments that move on lie in their values at the last trip, too. */
static int stays_within(const code *c, const int64_t *found, const int64_t *sizes) {
  for (uint32_t n = 0; n < c->num_repeats; n++) {
    const repeat *own = &c->repeats[n];
    int64_t trips = found[c->refs[own->numbers].reach];
    for (uint32_t k = 0; k < own->count; k++) {
      const ref *r = &c->refs[own->first + k];
      int64_t far = (trips - 1) * found[c->refs[own->numbers + 1 + k].reach];
      if (trips < 1 || !far) continue;
      if (r->space != PLACE) return 0;
      const place *p = &c->places[r->at];
      int64_t start = found[p->offset] + far;
      if (start < 0 || start + found[r->reach] > sizes[p->lifetime]) return 0;
    }
  }
  return 1;
}

/* What `site` has of shapes, sizes and places where extents have these values; why not, else. */
static const char *lay_out(site *s, const code *c, const int64_t *found, int64_t *scratch,
                           sized *order, span *spans, const unsigned char *weights,
                           int32_t threads) {
  int64_t io_sizes[NUM_IO], *sizes = scratch, *begins = scratch + c->num_lifetimes;
  for (uint32_t i = 0; i < NUM_IO; i++) {
    io_sizes[i] = found[io_extents[i]];
    s->behind[i] = found[behind_extents[i]];
  }
  int64_t *dimensions = shape_values(s->inputs, NUM_INPUTS, input_extents, found, io_sizes, NULL,
                                     s->dimensions);
  if (!dimensions || !shape_values(s->outputs, NUM_OUTPUTS, output_extents, found, io_sizes,
                                   output_io, dimensions))
    return "io buffers differ";
  if (s->idle) return NULL;
  for (uint32_t i = 0; i < c->num_lifetimes; i++) sizes[i] = found[c->lifetimes[i].size];
  s->arena_bytes = place_values(c, sizes, begins, order, spans);
  s->workspace_bytes = 0;
  for (uint32_t i = 0; i < c->num_workspaces; i++) {
    int64_t bytes = found[c->workspaces[i].first] + threads * found[c->workspaces[i].second];
    if (bytes > s->workspace_bytes) s->workspace_bytes = bytes;
  }
  if (s->arena_bytes >= MOST_BYTES) return "intermediate values are too large for any machine";
  for (uint32_t i = 0, n = 0; i < c->num_refs; i++) {
    while (n < c->num_repeats && i >= c->repeats[n].first + c->repeats[n].count) n++;
    const repeat *own = n < c->num_repeats && i >= c->repeats[n].first ? &c->repeats[n] : NULL;
    int used = !own || found[c->refs[own->numbers].reach]; /* at any trip */
    const ref *r = &c->refs[i];
    int64_t start = 0, room = (int64_t)sizeof *s->at;
    if (r->space == PLACE) {
      const place *p = &c->places[r->at];
      start = begins[p->lifetime] + found[p->offset];
      room = sizes[p->lifetime] - found[p->offset];
    } else if (r->space == IO || r->space == BEHIND) {
      start = r->space == BEHIND ? s->behind[r->at] : 0;
      room = io_sizes[r->at] - start;
    }
    if (r->space == NUMBER) {
      s->table[i] = (void *)(uintptr_t)found[r->reach];
      continue;
    }
    if (r->space != CONSTANT && used && found[r->reach] > room) return "a reference leaves its block";
    if (r->space == CONSTANT) s->table[i] = (void *)(weights + r->at);
    else if (r->space == SYMBOL) s->table[i] = &s->at[r->at];
    else s->table[i] = (void *)(uintptr_t)start;
  }
  return stays_within(c, found, sizes) ? NULL : "a reference leaves its block";
}

/* The site of a point; NULL after an error. */
static site *new_site(const code *c, const int64_t *at, const unsigned char *weights,
                      int32_t threads) {
  size_t numbers = NUM_EXTENTS + 2 * (size_t)c->num_lifetimes;
  size_t bytes = sizeof(site) + (c->num_refs + 1) * sizeof(void *);
  site *s = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
  int64_t *found = malloc(numbers * sizeof *found);
  sized *order = malloc((c->num_lifetimes + 1) * sizeof *order);
  span *spans = malloc((c->num_lifetimes + 1) * sizeof *spans);
  const char *wrong = "there is not enough memory for a table of addresses";
  int over = 0;
  if (s && found && order && spans) {
    wrong = NULL;
    memset(s, 0, sizeof *s);
    memcpy(s->at, at, sizeof s->at);
    for (int i = 0; i < NUM_SYMBOLS; i++) s->idle |= !at[i] && or_none[i];
    memcpy(s->inputs, tw_description_here.inputs, NUM_INPUTS * sizeof *s->inputs);
    memcpy(s->outputs, tw_description_here.outputs, NUM_OUTPUTS * sizeof *s->outputs);
    for (uint32_t i = 0; i < NUM_EXTENTS && !wrong; i++) {
      found[i] = value_of(i, at, &over);
      if (over || found[i] >= MOST_BYTES) wrong = "sizes are too large for any machine";
      else if (found[i] < 0 && i < NUM_SIZES && !s->idle) wrong = "a size is negative";
    }
    if (!wrong)
      wrong = lay_out(s, c, found, found + NUM_EXTENTS, order, spans, weights, threads);
  }
  free(found);
  free(order);
  free(spans);
  if (!wrong) return s;
  free(s);
  cannot_run(at, wrong);
  return NULL;
}

/* Let a site's table point into an arena. */
static void move_table(site *s, const code *c, const unsigned char *arena) {
  if (s->arena == arena) return;
  for (uint32_t i = 0; i < c->num_refs; i++)
    if (c->refs[i].space == PLACE)
      s->table[i] = (void *)((uintptr_t)s->table[i] - (uintptr_t)s->arena + (uintptr_t)arena);
  s->arena = arena;
}
