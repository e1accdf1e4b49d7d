/* Runs a library of symbolic shapes: program LIBRARY IN OUT THREADS
 *
 * IN holds 64-bit numbers and arrays: how many runs; of each, how its shapes are told (0 set_shapes,
 * 1 set_symbols, 2 tensors; 4 more: from pointers that are no multiples of 64), the values of the
 * symbols, and of each input its rank, its dimensions and its elements. OUT gets rank, dimensions
 * and elements of each output; what a run is refused for is printed. Two contexts take turns.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

enum { MOST = 64 };

static void stop(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void get(void *to, size_t bytes, FILE *file) {
  if (fread(to, 1, bytes, file) != bytes) stop("the input ends early");
}

/* memory with odd contents, so that nothing is taken for zero by luck */
static char *memory(int64_t bytes, int odd) {
  char *found = aligned_alloc(64, (size_t)(bytes + 191) & ~(size_t)63);
  return (char *)memset(found, 0xFF, (size_t)bytes + 64) + (odd ? 8 : 0);
}

int main(int count, char **words) {
  if (count != 5) stop("program LIBRARY IN OUT THREADS");
  void *code = dlopen(words[1], RTLD_NOW);
  if (!code) stop(dlerror());
  const tw_functions *(*library)(void) = dlsym(code, "tilework_library");
  const tw_functions *f = library();
  if (f->abi != TILEWORK_SYMBOLIC_ABI || f->bytes != sizeof(tw_symbolic_functions)) stop("abi");
  const tw_symbolic_functions *s = (const tw_symbolic_functions *)f;
  const tw_description *d = f->describe();
  FILE *in = fopen(words[2], "rb"), *out = fopen(words[3], "wb");
  void *contexts[2];
  for (int i = 0; i < 2; i++)
    if (f->create_at(NULL, atoi(words[4]), &contexts[i])) stop(f->last_error());
  int64_t runs, how, rank, symbols[MOST], dims[MOST][8];
  get(&runs, sizeof runs, in);
  for (int r = 0; r < runs; r++) {
    void *context = contexts[r % 2], *ins[MOST], *outs[MOST];
    const int64_t *shapes[MOST];
    get(&how, sizeof how, in);
    get(symbols, (size_t)s->symbols()->num_symbols * sizeof *symbols, in);
    tw_tensor tensors[2 * MOST];
    const tw_tensor *given[2 * MOST];
    for (int i = 0; i < d->num_inputs; i++) {
      const tw_value *v = &d->inputs[i];
      int64_t bytes = v->bits / 8;
      get(&rank, sizeof rank, in);
      get(dims[i], (size_t)rank * sizeof *dims[i], in);
      for (int k = 0; k < rank; k++) bytes *= dims[i][k];
      shapes[i] = dims[i];
      ins[i] = memory(bytes, how & 4);
      get(ins[i], (size_t)bytes, in);
      tensors[i] = (tw_tensor){ins[i], {1, 0}, v->ndim, {v->code, v->bits, 1}, dims[i], NULL, 0};
      given[i] = &tensors[i];
    }
    int failed = (how & 3) == 1 ? s->set_symbols(context, symbols) : s->set_shapes(context, shapes);
    if (failed) {
      puts(f->last_error());
      continue;
    }
    const tw_value *to = s->outputs(context);
    for (int i = 0; i < d->num_outputs; i++) {
      int n = d->num_inputs + i;
      outs[i] = memory(to[i].bytes, how & 4);
      tensors[n] = (tw_tensor){outs[i], {1, 0}, to[i].ndim, {to[i].code, to[i].bits, 1},
                               (int64_t *)to[i].shape, NULL, 0};
      given[n] = &tensors[n];
    }
    failed = (how & 3) == 2 ? f->run_tensors(context, given, given + d->num_inputs)
                            : f->run(context, (const void *const *)ins, outs);
    if (failed) stop(f->last_error());
    for (int i = 0; i < d->num_outputs; i++) {
      rank = to[i].ndim;
      fwrite(&rank, sizeof rank, 1, out);
      fwrite(to[i].shape, sizeof *to[i].shape, (size_t)rank, out);
      fwrite(outs[i], 1, (size_t)to[i].bytes, out);
    }
  }
  for (int i = 0; i < 2; i++) f->destroy(contexts[i]);
  return fclose(out);
}
