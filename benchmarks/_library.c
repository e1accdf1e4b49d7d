/* A program that knows no network: opens libraries by their paths and does what lines on its
 * standard input say. It answers each with one line.
 *
 *   open PATH THREADS INPUTS   milliseconds to load, to create a context, and of the first run
 *   run COUNT                  nanoseconds of all runs
 *   outputs FILE               writes the outputs of the last run there
 *   memory                     bytes of this process in memory: its own, and those of files
 *   context                    makes one more context and runs it
 *   loads PATH COUNT           loads, creates, runs, destroys, unloads
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "network.h"

static const tw_functions *net;
static void *inputs[64], *outputs[64], *context;
static int threads;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void stop(const char *what) {
  const char *why = net ? net->last_error() : dlerror();
  printf("error: %s: %s\n", what, why ? why : "");
  exit(1);
}

static void *memory_for(int64_t bytes) {
  void *made = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
  if (!made) stop("memory");
  memset(made, 0, (size_t)bytes);
  return made;
}

static void *load(const char *path) {
  void *handle = dlopen(path, RTLD_NOW);
  if (!handle) stop(path);
  const tw_functions *(*library)(void) =
      (const tw_functions *(*)(void))dlsym(handle, "tilework_library");
  if (!library) stop("tilework_library");
  net = library();
  return handle;
}

static void run(void *where) {
  if (net->run(where, (const void *const *)inputs, outputs)) stop("run");
}

static void open_network(const char *path, const char *file) {
  long long begin = now_ns();
  load(path);
  long long loaded = now_ns();
  if (net->create_at(NULL, threads, &context)) stop("create");
  long long created = now_ns();
  const tw_description *about = net->describe();
  FILE *from = fopen(file, "rb");
  for (int i = 0; i < about->num_inputs; i++) {
    inputs[i] = memory_for(about->inputs[i].bytes);
    if (!from || fread(inputs[i], 1, (size_t)about->inputs[i].bytes, from) !=
                     (size_t)about->inputs[i].bytes)
      stop(file);
  }
  fclose(from);
  for (int i = 0; i < about->num_outputs; i++) outputs[i] = memory_for(about->outputs[i].bytes);
  long long ready = now_ns();
  run(context);
  printf("%.3f %.3f %.3f\n", 1e-6 * (double)(loaded - begin), 1e-6 * (double)(created - loaded),
         1e-6 * (double)(now_ns() - ready));
}

static void show_memory(void) {
  char line[256];
  long own = 0, files = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status)) {
    sscanf(line, "RssAnon: %ld", &own);
    sscanf(line, "RssFile: %ld", &files);
  }
  fclose(status);
  printf("%ld %ld\n", own * 1024, files * 1024);
}

int main(void) {
  char line[4096], path[2048], file[2048];
  int count;
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "open %2047s %d %2047s", path, &threads, file) == 3) open_network(path, file);
    else if (sscanf(line, "run %d", &count) == 1) {
      long long begin = now_ns();
      for (int i = 0; i < count; i++) run(context);
      printf("%lld\n", now_ns() - begin);
    } else if (sscanf(line, "outputs %2047s", file) == 1) {
      FILE *to = fopen(file, "wb");
      const tw_description *about = net->describe();
      for (int i = 0; i < about->num_outputs; i++)
        fwrite(outputs[i], 1, (size_t)about->outputs[i].bytes, to);
      fclose(to);
      puts("written");
    } else if (!strncmp(line, "memory", 6)) show_memory();
    else if (!strncmp(line, "context", 7)) {
      void *more;
      if (net->create_at(NULL, threads, &more)) stop("create");
      run(more);
      puts("made");
    } else if (sscanf(line, "loads %2047s %d", path, &count) == 2) {
      for (int i = 0; i < count; i++) {
        void *handle = load(path), *one;
        if (net->create_at(NULL, 1 + i % 2, &one)) stop("create");
        run(one);
        net->destroy(one);
        dlclose(handle);
      }
      puts("done");
    } else stop(line);
  }
  return 0;
}
