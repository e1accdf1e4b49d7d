/* The part of a network's library that is the same for all networks.
 *
 * network.h is the network's header, tables.h what differs beside: its values, and for each level
 * the kernels' arguments. TW(x) is a function of the header, TW_CONTEXT its structure. Needs a C
 * library and nothing else.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "network.h"

#define EXPORT __attribute__((visibility("default")))
#define ALIGN 64
#define HUGE_PAGE ((size_t)1 << 21)
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { ARENA, CONSTANT, IO, PLACE, SYMBOL, BEHIND, NUMBER };

typedef struct {
  uint64_t at; /* a byte offset, or the number of an io buffer, place or symbol; or a number */
  uint32_t space;
  uint32_t reach; /* an extent: bytes from there to what a kernel touches last */
} ref;

typedef struct {
  uint64_t first, second;
} pair;

/* Calls that a run repeats: their first argument, how many they have, and where in the table their
 * numbers are: how often, and by how many bytes each argument moves on. */
typedef struct {
  uint32_t first, count, numbers;
} repeat;

/* Where a run brings the shapes: numbers of extents, and what is made of them. */
typedef struct {
  uint32_t size, first, last; /* alive from the first to the last call */
} lifetime;

typedef struct {
  uint32_t lifetime, offset;
} place;

typedef struct {
  int64_t factor;
  uint32_t first, count; /* its atoms */
} term;

typedef struct {
  uint32_t whole;
  int64_t by;
} quotient;

typedef struct { /* symbol = (dimension - rest) / factor */
  uint32_t symbol, input, dimension, rest;
  int64_t factor;
} rule;

typedef struct {
  void (*run)(void **table, void *workspace, int32_t threads);
  const ref *refs;
  const pair *workspaces; /* bytes that the threads share, bytes of each; or their extents */
  const pair *ranges;     /* of the weights: first byte, and the one behind the last */
  uint32_t num_refs, num_workspaces, num_ranges;
  uint64_t arena_bytes;
  const lifetime *lifetimes;
  const place *places;
  const repeat *repeats;
  uint32_t num_lifetimes, num_repeats;
} code;

#include "tables.h"

/* --- errors ------------------------------------------------------------------------------- */

static _Thread_local char last_error[600];

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int begin = snprintf(last_error, sizeof last_error, "%s: ", tw_description_here.name);
  vsnprintf(last_error + begin, sizeof last_error - (size_t)begin, format, arguments);
  va_end(arguments);
  return -1;
}

#include "features.c"

/* --- memory ------------------------------------------------------------------------------- */

typedef struct {
  void *data;
  void *mapped; /* what to unmap; NULL: what to free is `data` */
  size_t bytes;
  uint64_t size; /* that was asked for */
} block;

/* Memory that begins at a multiple of ALIGN; much of it lies on huge pages where there are some. */
static int allocate(block *out, uint64_t bytes) {
  out->mapped = NULL;
  out->data = NULL;
  out->size = bytes;
  if (bytes < HUGE_PAGE) {
    out->data = aligned_alloc(ALIGN, (size_t)(bytes + ALIGN) / ALIGN * ALIGN);
    return out->data ? 0 : -1;
  }
  out->bytes = ((size_t)bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
  void *memory = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -1;
  madvise(memory, out->bytes, MADV_HUGEPAGE); /* without them small pages do */
  out->mapped = memory;
  out->data = (void *)(((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  return 0;
}

static void release(block *b) {
  if (b->mapped) munmap(b->mapped, b->bytes);
  else free(b->data);
  b->data = b->mapped = NULL;
}

/* Memory of at least so many bytes; what was in a smaller one is gone. */
static int at_least(block *b, uint64_t bytes) {
  if (b->data && b->size >= bytes) return 0;
  release(b);
  return allocate(b, bytes);
}

#include "weights.c"

#ifdef NUM_SYMBOLS
#include "shapes.c"
#endif

/* --- contexts ----------------------------------------------------------------------------- */

struct TW_CONTEXT {
#ifdef NUM_SYMBOLS
  site *site, *sites[KEPT_SITES]; /* where runs are, NULL if nothing said it; the last ones first */
  uint32_t num_sites;
  judged *judged; /* a ring of so many, of all that were ever made */
  uint32_t made_judged;
  const unsigned char *weights;
#endif
  const code *code;
  const char *level;
  void **table;
  pair *places;    /* entries of the table that io buffers go to: entry, io */
  void **buffers;  /* of this run, by io */
  block *copies;   /* of buffers that lie where kernels cannot take them, by io */
  block arena, workspace;
  uint32_t num_places;
  int32_t threads;
  atomic_flag busy;
};
typedef struct TW_CONTEXT context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t contexts;

/* A child that is forked while another thread holds the lock would wait for it for ever. The handlers
   go with the library, which not every linker sees to: some take the C library's own pthread_atfork,
   and some leave out the start files that end what a library has registered. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
extern void __cxa_finalize(void *);
extern void *__dso_handle __attribute__((visibility("hidden")));
static void hold(void) { pthread_mutex_lock(&lock); }
static void let_go(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void watch_forks(void) {
  __register_atfork(hold, let_go, let_go, &__dso_handle);
}
__attribute__((destructor)) static void forget_forks(void) { __cxa_finalize(&__dso_handle); }

static int usable_cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

#ifndef NUM_SYMBOLS
static uint64_t workspace_bytes(const code *c, int32_t threads) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < c->num_workspaces; i++) {
    uint64_t bytes = c->workspaces[i].first + (uint64_t)threads * c->workspaces[i].second;
    if (bytes > most) most = bytes;
  }
  return most;
}
#endif

static const unsigned char *enter(const code *c) {
  pthread_mutex_lock(&lock);
  const unsigned char *base = weights_here();
  if (base) {
    contexts++;
    populate(base, c);
  }
  pthread_mutex_unlock(&lock);
  return base;
}

static void leave(void) {
  pthread_mutex_lock(&lock);
  if (--contexts == 0) {
    STOP_THREADS();
    forget_weights();
  }
  pthread_mutex_unlock(&lock);
}

static int fill(context *c, const unsigned char *base) {
  const code *own = c->code;
  c->places = calloc(own->num_refs + 1, sizeof *c->places);
  c->buffers = calloc(NUM_IO + 1, sizeof *c->buffers);
  c->copies = calloc(NUM_IO + 1, sizeof *c->copies);
  int enough = c->places && c->buffers && c->copies;
#ifdef NUM_SYMBOLS
  c->weights = base; /* arena, workspace and table come with the shapes */
  c->judged = aligned_alloc(ALIGN, KEPT_JUDGED * sizeof *c->judged);
  enough = enough && c->judged;
#else
  c->table = calloc(own->num_refs + 1, sizeof *c->table);
  enough = enough && c->table && !allocate(&c->arena, own->arena_bytes) &&
           !allocate(&c->workspace, workspace_bytes(own, c->threads));
#endif
  if (!enough)
    return fail("there is not enough memory for a context: intermediate values take %llu bytes",
                (unsigned long long)own->arena_bytes);
  for (uint32_t i = 0; i < own->num_refs; i++) {
    ref r = own->refs[i];
    if (r.space == ARENA) c->table[i] = (unsigned char *)c->arena.data + r.at;
    else if (r.space == CONSTANT && c->table) c->table[i] = (void *)(base + r.at);
    else if (r.space == NUMBER && c->table) c->table[i] = (void *)(uintptr_t)r.at;
    else if (r.space == IO || r.space == BEHIND) c->places[c->num_places++] = (pair){i, r.at};
  }
  return 0;
}

EXPORT void TW(destroy)(context *c) {
  if (!c) return;
  for (int i = 0; c->copies && i < NUM_IO; i++) release(&c->copies[i]);
  release(&c->arena);
  release(&c->workspace);
#ifdef NUM_SYMBOLS
  while (c->num_sites) free(c->sites[--c->num_sites]);
  free(c->judged);
#else
  free(c->table);
#endif
  free(c->copies);
  free(c->buffers);
  free(c->places);
  free(c);
  leave();
}

EXPORT int TW(create_at)(const char *level, int threads, context **out) {
  const tw_description *d = &tw_description_here;
  if (!out) return fail("create: there is no place for the context (out is NULL)");
  *out = NULL;
  if (threads < 0) return fail("create: %d threads: give 1 or more, or 0 for the usual", threads);
  if (threads > 1 && d->cores == 1)
    return fail("it was compiled for one core and cannot use %d threads: compile the network for "
                "-num-cores=%d", threads, threads);
  int number = choose_level(level);
  if (number < 0) return -1;
  if (threads == 0) {
    threads = usable_cores();
    if (threads > d->threads) threads = d->threads;
  }
  const code *own = &codes[number];
  const unsigned char *base = enter(own);
  if (!base) return -1;
  context *c = calloc(1, sizeof *c);
  if (!c) {
    leave();
    return fail("there is not enough memory for a context");
  }
  c->code = own;
  c->level = d->levels[number].name;
  c->threads = threads;
  atomic_flag_clear(&c->busy);
  if (fill(c, base)) {
    TW(destroy)(c);
    return -1;
  }
  *out = c;
  return 0;
}

EXPORT int TW(create)(int threads, context **out) { return TW(create_at)(NULL, threads, out); }

EXPORT const char *TW(level)(const context *c) { return c ? c->level : ""; }
EXPORT const tw_description *TW(describe)(void) { return &tw_description_here; }
EXPORT const char *TW(last_error)(void) { return last_error; }

/* --- shapes ------------------------------------------------------------------------------- */

/* A context's memory is that of one run: whoever has taken it gives it back. */
static int take(context *c) {
  if (!c) return fail("run: there is no context");
  if (atomic_flag_test_and_set(&c->busy))
    return fail("run: the context is at work in another thread: create one for each thread");
  return 0;
}

static int give(context *c, int failed) {
  atomic_flag_clear(&c->busy);
  return failed;
}

#ifdef NUM_SYMBOLS

static const tw_value *inputs_of(const context *c) {
  return c && c->site ? c->site->inputs : tw_description_here.inputs;
}
static const tw_value *outputs_of(const context *c) {
  return c && c->site ? c->site->outputs : tw_description_here.outputs;
}

/* Make the context's next run one at a point. */
static int go_to(context *c, const int64_t *at) {
  uint32_t i = 0;
  site *s;
  c->site = NULL;
  while (i < c->num_sites && memcmp(c->sites[i]->at, at, sizeof c->sites[i]->at)) i++;
  if (i < c->num_sites) s = c->sites[i];
  else if ((s = new_site(c->code, at, c->weights, c->threads))) {
    if (i == KEPT_SITES) free(c->sites[--i]);
    c->num_sites = i + 1;
  } else return -1;
  memmove(c->sites + 1, c->sites, i * sizeof *c->sites);
  c->sites[0] = s;
  /* the largest arena is kept; one that has to grow may have to again, by a position at each run */
  uint64_t need = (uint64_t)s->arena_bytes, had = c->arena.data ? c->arena.size : 0;
  if (at_least(&c->arena, had && had < need ? need + need / 8 : need) ||
      at_least(&c->workspace, (uint64_t)s->workspace_bytes))
    return fail("there is not enough memory for a run: intermediate values take %llu bytes",
                (unsigned long long)need);
  if (!s->idle) move_table(s, c->code, c->arena.data);
  s->table[c->code->num_refs] = record_at(c->judged, &c->made_judged, at);
  c->site = s;
  c->table = s->table;
  return 0;
}

static int go_to_shapes(context *c, const int64_t *const *shapes) {
  int64_t at[NUM_SYMBOLS];
  return solve(shapes, at) || go_to(c, at) ? -1 : 0;
}

EXPORT int TW(set_shapes)(context *c, const int64_t *const *inputs) {
  if (!inputs) return fail("set_shapes: there are no shapes");
  return take(c) ? -1 : give(c, go_to_shapes(c, inputs));
}

EXPORT int TW(set_symbols)(context *c, const int64_t *values) {
  if (!values) return fail("set_symbols: there are no values");
  for (uint32_t i = 0; i < NUM_SYMBOLS; i++)
    if (check_symbol(i, values[i], "")) return -1;
  return take(c) ? -1 : give(c, go_to(c, values));
}

EXPORT const tw_value *TW(inputs)(const context *c) { return inputs_of(c); }
EXPORT const tw_value *TW(outputs)(const context *c) { return outputs_of(c); }
EXPORT const tw_symbols *TW(symbols)(void) { return &tw_symbols_here; }

/* Where in its room an io buffer's new positions begin, if the argument is one to these. */
static int64_t behind(const context *c, pair where) {
  return c->code->refs[where.first].space == BEHIND ? c->site->behind[where.second] : 0;
}

#else

static const tw_value *inputs_of(const context *c) {
  (void)c;
  return inputs;
}
static const tw_value *outputs_of(const context *c) {
  (void)c;
  return outputs;
}
static int64_t behind(const context *c, pair where) {
  (void)c, (void)where;
  return 0;
}
typedef struct {
  int32_t input, output, axis;
  int64_t positions;
} tw_room;
static const tw_room *room_of(uint32_t io) {
  (void)io;
  return NULL;
}

#endif

/* --- runs --------------------------------------------------------------------------------- */

/* A buffer that kernels can take in the place of `given`: itself, or the context's own. */
static void *usable(context *c, uint64_t io, const void *given, int64_t bytes) {
  if (!((uintptr_t)given % ALIGN)) return (void *)given;
  return at_least(&c->copies[io], (uint64_t)bytes) ? NULL : c->copies[io].data;
}

static int overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
  return a_bytes && b_bytes && (uintptr_t)a < (uintptr_t)b + (uint64_t)b_bytes &&
         (uintptr_t)b < (uintptr_t)a + (uint64_t)a_bytes;
}

static int check_pointers(const context *c, const void *const *inputs, void *const *outputs) {
  const tw_description *d = &tw_description_here;
  const tw_value *ins = inputs_of(c), *outs = outputs_of(c);
  for (int i = 0; i < d->num_inputs; i++) {
    if (!inputs[i] && ins[i].bytes) return fail("run: input %s is NULL", ins[i].name);
    if (room_of((uint32_t)i) && (uintptr_t)inputs[i] % ALIGN)
      return fail("run: the room of input %s begins at no multiple of %d bytes", ins[i].name, ALIGN);
  }
  for (int o = 0; o < d->num_outputs; o++) {
    const tw_value *to = &outs[o];
    const tw_room *room = room_of(output_io[o]);
    if (room && outputs[o] && outputs[o] != inputs[room->input])
      return fail("run: output %s continues input %s in its memory: give the same pointer, or NULL",
                  to->name, ins[room->input].name);
    if (room) continue;
    if (!outputs[o] && to->bytes) return fail("run: output %s is NULL", to->name);
    for (int i = 0; i < d->num_inputs; i++)
      if (overlap(inputs[i], ins[i].bytes, outputs[o], to->bytes))
        return fail("run: input %s and output %s share memory", ins[i].name, to->name);
    for (int p = 0; p < o; p++)
      if (overlap(outputs[p], outs[p].bytes, outputs[o], to->bytes))
        return fail("run: outputs %s and %s share memory", outs[p].name, to->name);
  }
  return 0;
}

static int run_now(context *c, const void *const *inputs, void *const *outputs) {
  const tw_description *d = &tw_description_here;
  const tw_value *ins = inputs_of(c), *outs = outputs_of(c);
  for (int i = 0; i < d->num_inputs; i++) {
    void *there = usable(c, (uint64_t)i, inputs[i], ins[i].bytes);
    if (!there && ins[i].bytes)
      return fail("run: there is no memory for a copy of input %s", ins[i].name);
    if (there != inputs[i]) memcpy(there, inputs[i], (size_t)ins[i].bytes);
    c->buffers[i] = there;
  }
  for (int io = d->num_inputs; io < NUM_IO; io++) c->buffers[io] = NULL;
  for (int o = 0; o < d->num_outputs; o++) {
    uint32_t io = output_io[o];
    if (c->buffers[io] || room_of(io)) continue;
    c->buffers[io] = usable(c, io, outputs[o], outs[o].bytes);
    if (!c->buffers[io] && outs[o].bytes)
      return fail("run: there is no memory for output %s", outs[o].name);
  }
  for (uint32_t i = 0; i < c->num_places; i++)
    c->table[c->places[i].first] =
        (void *)((uintptr_t)c->buffers[c->places[i].second] + (uintptr_t)behind(c, c->places[i]));
  c->code->run(c->table, c->workspace.data, c->threads);
  for (int o = 0; o < d->num_outputs; o++) {
    const void *from = c->buffers[output_io[o]];
    if (from != outputs[o] && !room_of(output_io[o]) && outs[o].bytes)
      memcpy(outputs[o], from, (size_t)outs[o].bytes);
  }
  return 0;
}

/* A run of a context that was taken. */
static int run_taken(context *c, const void *const *inputs, void *const *outputs) {
#ifdef NUM_SYMBOLS
  if (!c->site) return fail("run: nothing says the shapes: call set_shapes or set_symbols before");
#endif
  if (check_pointers(c, inputs, outputs)) return -1;
#ifdef NUM_SYMBOLS
  if (c->site->idle) return 0;
#endif
  return run_now(c, inputs, outputs);
}

static int check_lists(const void *inputs, const void *outputs) {
  if ((!inputs && tw_description_here.num_inputs) || !outputs)
    return fail("run: there are no inputs or outputs");
  return 0;
}

EXPORT int TW(run)(context *c, const void *const *inputs, void *const *outputs) {
  if (check_lists(inputs, outputs) || take(c)) return -1;
  return give(c, run_taken(c, inputs, outputs));
}

/* --- tensors ------------------------------------------------------------------------------ */

static int check_kind(const char *what, const tw_value *v, const tw_tensor *t) {
  if (!t) return fail("run: %s %s is NULL", what, v->name);
  if (t->device.device_type != 1)
    return fail("run: %s %s lies in no CPU's memory (device type %d)", what, v->name,
                (int)t->device.device_type);
  if (t->dtype.code != v->code || t->dtype.bits != v->bits || t->dtype.lanes != v->lanes)
    return fail("run: %s %s has elements of another type than %s (code %d, %d bits)", what, v->name,
                v->dtype, t->dtype.code, t->dtype.bits);
  return 0;
}

static int other_shape(const char *what, const tw_value *v) {
  char text[300] = "";
  for (int i = 0; i < v->ndim; i++) {
    size_t used = strlen(text);
    const char *comma = i ? "," : "";
    if (v->shape[i] < 0) snprintf(text + used, sizeof text - used, "%s?", comma);
    else snprintf(text + used, sizeof text - used, "%s%lld", comma, (long long)v->shape[i]);
  }
  return fail("run: %s %s has another shape than %s[%s]", what, v->name, v->dtype, text);
}

/* Whether a tensor is this value in memory, or the beginning of its room. */
static int check_tensor(const char *what, const tw_value *v, const tw_room *room,
                        const tw_tensor *t) {
  if (check_kind(what, v, t)) return -1;
  int same = t->ndim == v->ndim, none = 0;
  for (int i = 0; same && i < v->ndim; i++) same = t->shape[i] == v->shape[i];
  if (!same) return other_shape(what, v);
  for (int i = 0; i < v->ndim; i++) none |= !room && !v->shape[i];
  int64_t step = 1, dense = 1;
  for (int i = v->ndim - 1; !none && i >= 0; i--) {
    int64_t given = t->strides ? t->strides[i] : dense;
    if (v->shape[i] > 1 && given != step)
      return room ? fail("run: %s %s is not the beginning of a room of %lld positions", what,
                         v->name, (long long)room->positions)
                  : fail("run: %s %s is not dense: copy it first", what, v->name);
    step *= room && i == room->axis ? room->positions : v->shape[i];
    dense *= v->shape[i];
  }
  return 0;
}

static void *tensor_data(const tw_tensor *t) { return (unsigned char *)t->data + t->byte_offset; }

#ifdef NUM_SYMBOLS
static int take_shapes(context *c, const tw_tensor *const *inputs) {
  const int64_t *shapes[NUM_INPUTS + 1];
  for (int i = 0; i < NUM_INPUTS; i++) {
    const tw_value *v = &tw_description_here.inputs[i];
    if (check_kind("input", v, inputs[i])) return -1;
    if (inputs[i]->ndim != v->ndim) return other_shape("input", v);
    shapes[i] = inputs[i]->shape;
  }
  return go_to_shapes(c, shapes);
}
#endif

static int run_tensors_taken(context *c, const tw_tensor *const *inputs,
                             const tw_tensor *const *outputs) {
  const tw_description *d = &tw_description_here;
  const void *from[NUM_INPUTS + 1];
  void *to[NUM_OUTPUTS + 1];
#ifdef NUM_SYMBOLS
  if (take_shapes(c, inputs)) return -1;
#endif
  for (int i = 0; i < d->num_inputs; i++) {
    if (check_tensor("input", &inputs_of(c)[i], room_of((uint32_t)i), inputs[i])) return -1;
    from[i] = tensor_data(inputs[i]);
  }
  for (int i = 0; i < d->num_outputs; i++) {
    if (check_tensor("output", &outputs_of(c)[i], room_of(output_io[i]), outputs[i])) return -1;
    to[i] = tensor_data(outputs[i]);
  }
  return run_taken(c, from, to);
}

EXPORT int TW(run_tensors)(context *c, const tw_tensor *const *inputs,
                           const tw_tensor *const *outputs) {
  if (check_lists(inputs, outputs) || take(c)) return -1;
  return give(c, run_tensors_taken(c, inputs, outputs));
}

/* --- for whoever loads a library without knowing its name --------------------------------- */

#define COMMON \
  TW(describe), (int (*)(const char *, int, void **))TW(create_at), \
      (int (*)(void *, const void *const *, void *const *))TW(run), \
      (int (*)(void *, const tw_tensor *const *, const tw_tensor *const *))TW(run_tensors), \
      (const char *(*)(const void *))TW(level), (void (*)(void *))TW(destroy), TW(last_error)

#ifdef NUM_SYMBOLS
EXPORT const tw_functions *tilework_library(void) {
  static const tw_symbolic_functions all = {
      {TILEWORK_SYMBOLIC_ABI, sizeof(tw_symbolic_functions), COMMON},
      TW(symbols),
      (int (*)(void *, const int64_t *const *))TW(set_shapes),
      (int (*)(void *, const int64_t *))TW(set_symbols),
      (const tw_value *(*)(const void *))TW(inputs),
      (const tw_value *(*)(const void *))TW(outputs),
  };
  return &all.common;
}
#else
EXPORT const tw_functions *tilework_library(void) {
  static const tw_functions all = {TILEWORK_LIBRARY_ABI, sizeof(tw_functions), COMMON};
  return &all;
}
#endif

#include "ffi.c"

__attribute__((destructor)) static void unload(void) {
  while (num_idle) TW(destroy)(idle[--num_idle]);
  STOP_THREADS();
  forget_weights();
}
