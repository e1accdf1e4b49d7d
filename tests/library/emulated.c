/* Runs a network of another machine: program FILE IN OUT THREADS
 *
 * FILE is a network's library, or the object files of its module, linked. IN holds 64-bit numbers:
 * how many inputs, buffers, arguments; bytes of the arena, the constants, the workspace, and of
 * each buffer, inputs first; of each argument its space (0 arena, 1 constants, 2 a buffer) and its
 * place there. Then come the constants and the inputs. OUT gets the other buffers; the name of the
 * level that a library runs is printed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

enum { INPUTS, BUFFERS, ARGUMENTS, ARENA, CONSTANTS, WORKSPACE, NUMBERS };

static void stop(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void get(void *to, size_t bytes, FILE *file) {
  if (fread(to, 1, bytes, file) != bytes) stop("the input ends early");
}

/* memory with odd contents, so that nothing is taken for zero by luck */
static char *memory(uint64_t bytes) {
  char *found = aligned_alloc(64, (bytes + 127) & ~(uint64_t)63);
  if (!found) stop("no memory");
  return memset(found, 0xFF, bytes);
}

int main(int count, char **words) {
  if (count != 5) stop("program FILE IN OUT THREADS");
  void *code = dlopen(words[1], RTLD_NOW);
  if (!code) stop(dlerror());
  FILE *file = fopen(words[2], "rb");
  if (!file) stop("there is no input");
  uint64_t has[NUMBERS];
  get(has, sizeof has, file);
  uint64_t *sizes = calloc(has[BUFFERS], sizeof *sizes);
  uint64_t (*arguments)[2] = calloc(has[ARGUMENTS], sizeof *arguments);
  char **buffers = calloc(has[BUFFERS], sizeof *buffers);
  get(sizes, has[BUFFERS] * sizeof *sizes, file);
  get(arguments, has[ARGUMENTS] * sizeof *arguments, file);
  char *arena = memory(has[ARENA]), *constants = memory(has[CONSTANTS]);
  get(constants, has[CONSTANTS], file);
  for (uint64_t i = 0; i < has[BUFFERS]; i++) {
    buffers[i] = memory(sizes[i]);
    if (i < has[INPUTS]) get(buffers[i], sizes[i], file);
  }
  int threads = atoi(words[4]);
  const tw_functions *(*library)(void) = dlsym(code, "tilework_library");
  if (library) {
    void *context;
    const void **inputs = (const void **)buffers;
    if (library()->create_at(NULL, threads, &context)) stop(library()->last_error());
    if (library()->run(context, inputs, (void **)buffers + has[INPUTS]))
      stop(library()->last_error());
    printf("%s", library()->level(context));
    library()->destroy(context);
  } else {
    void (*run)(void **, void *, int32_t) = dlsym(code, "tilework_run");
    void **table = calloc(has[ARGUMENTS], sizeof *table);
    if (!run) stop("neither a library nor a module");
    for (uint64_t i = 0; i < has[ARGUMENTS]; i++) {
      uint64_t space = arguments[i][0], at = arguments[i][1];
      table[i] = space == 2 ? buffers[at] : (space ? constants : arena) + at;
    }
    run(table, memory(has[WORKSPACE]), threads);
  }
  file = fopen(words[3], "wb");
  for (uint64_t i = has[INPUTS]; i < has[BUFFERS]; i++) fwrite(buffers[i], 1, sizes[i], file);
  return fclose(file);
}
