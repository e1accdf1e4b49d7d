/* @TITLE@
 *
@VALUES@
 *
 * Made by @MADE_BY@. How the functions behave: docs/library.md of Tilework.
 */
#ifndef TW_@NAME@_H
#define TW_@NAME@_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TILEWORK_LIBRARY_ABI
#define TILEWORK_LIBRARY_ABI @ABI@

/* An input or output. Elements lie densely, the last axis first; `code` and `bits` are DLPack's. */
typedef struct tw_value {
  const char *name;
  const char *dtype; /* such as "float32" */
  const int64_t *shape;
  int64_t bytes;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
} tw_value;

/* Code for one kind of CPU. */
typedef struct tw_level {
  const char *name;
  const char *target;
  const char *needs;     /* features, one space between two */
  int64_t weights_bytes; /* mapped, and shared by all contexts and processes */
  int64_t context_bytes; /* what each context has for itself, with one thread */
} tw_level;

typedef struct tw_description {
  int32_t abi;
  int32_t num_inputs, num_outputs, num_levels;
  int32_t threads; /* of a context that is created with 0 threads, at most */
  int32_t cores;   /* 1: the code cannot use more than one thread */
  const char *name;
  const char *made_by;
  const tw_value *inputs, *outputs;
  const tw_level *levels; /* the first one that the CPU can run is used */
} tw_description;

/* The same layout as DLPack's DLTensor: cast a pointer to one. */
typedef struct tw_tensor {
  void *data;
  struct {
    int32_t device_type, device_id; /* 1 and 0: a CPU's memory */
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: dense */
  uint64_t byte_offset;
} tw_tensor;

/* The functions below, for programs that open libraries whose headers they have not seen:
 *
 *   const tw_functions *(*library)(void) = dlsym(dlopen("net.so", RTLD_NOW), "tilework_library");
 */
typedef struct tw_functions {
  int32_t abi, bytes; /* TILEWORK_LIBRARY_ABI, and of this structure */
  const tw_description *(*describe)(void);
  int (*create_at)(const char *level, int threads, void **out);
  int (*run)(void *context, const void *const *inputs, void *const *outputs);
  int (*run_tensors)(void *context, const tw_tensor *const *inputs,
                     const tw_tensor *const *outputs);
  const char *(*level)(const void *context);
  void (*destroy)(void *context);
  const char *(*last_error)(void);
} tw_functions;

#elif TILEWORK_LIBRARY_ABI != @ABI@
#error "headers of two versions of Tilework's libraries in one file: make both with one version"
#endif

/* Memory for one run at a time: one for each thread that runs the network. */
typedef struct tw_@NAME@ tw_@NAME@;

/* All return 0, or another number after an error, which tw_@NAME@_last_error() tells. */

/* threads: of each run; 0: as compiled, but no more than the cores of this process. */
int tw_@NAME@_create(int threads, tw_@NAME@ **out);

/* The same at a level of one's choice, by its name; NULL: the best one. */
int tw_@NAME@_create_at(const char *level, int threads, tw_@NAME@ **out);

/* One pointer for each input and output, in order. Those at multiples of 64 bytes are used where
 * they are, others are copied. */
int tw_@NAME@_run(tw_@NAME@ *context, const void *const *inputs, void *const *outputs);

/* The same with tensors, whose shapes and types are checked. */
int tw_@NAME@_run_tensors(tw_@NAME@ *context, const tw_tensor *const *inputs,
                          const tw_tensor *const *outputs);

/* The level that a context runs at. */
const char *tw_@NAME@_level(const tw_@NAME@ *context);

/* NULL is fine. */
void tw_@NAME@_destroy(tw_@NAME@ *context);

/* Names, shapes, types, levels. */
const tw_description *tw_@NAME@_describe(void);

/* One line about this thread's last error; "" if there was none. */
const char *tw_@NAME@_last_error(void);

@SYMBOLIC@#ifdef __cplusplus
}
#endif
#endif
