#ifndef TILEWORK_SYMBOLIC_ABI
#define TILEWORK_SYMBOLIC_ABI @SYMBOLIC_ABI@ /* of libraries whose shapes a run brings */

/* A number that the shapes of the inputs bring. */
typedef struct tw_symbol {
  const char *name;
  int64_t low, high; /* the least and the greatest value */
  int64_t typical;   /* what schedules were chosen for, among others */
} tw_symbol;

/* Memory of an input that an output continues: keys of the past, and behind them those of now. It
 * has the shape of both, but for `axis`, where it is `positions` long; both are its beginning. */
typedef struct tw_room {
  int32_t input, output, axis;
  int64_t positions;
} tw_room;

typedef struct tw_symbols {
  int32_t num_symbols, num_rooms;
  const tw_symbol *symbols;
  const tw_room *rooms;
  /* each dimension of each value as a text, such as "past + seq" */
  const char *const *const *inputs;
  const char *const *const *outputs;
} tw_symbols;

/* What tilework_library() returns points to `common` of this, where common.abi says so. */
typedef struct tw_symbolic_functions {
  tw_functions common; /* its abi is TILEWORK_SYMBOLIC_ABI, its bytes are of this structure */
  const tw_symbols *(*symbols)(void);
  int (*set_shapes)(void *context, const int64_t *const *inputs);
  int (*set_symbols)(void *context, const int64_t *values);
  const tw_value *(*inputs)(const void *context);
  const tw_value *(*outputs)(const void *context);
} tw_symbolic_functions;

#elif TILEWORK_SYMBOLIC_ABI != @SYMBOLIC_ABI@
#error "headers of two versions of Tilework's libraries in one file: make both with one version"
#endif

/* Shapes of the runs to come: for each input a pointer to its dimensions. Refuses what the network
 * was not compiled for. Memory is laid out when shapes are new; the last ones stay ready, and the
 * largest memory is kept. tw_@NAME@_run_tensors() does it by itself. */
int tw_@NAME@_set_shapes(tw_@NAME@ *context, const int64_t *const *inputs);

/* The same by the values of the symbols, in the order of tw_@NAME@_symbols(). */
int tw_@NAME@_set_symbols(tw_@NAME@ *context, const int64_t *values);

/* Inputs and outputs of the next run, with numbers for shapes and bytes: what to allocate. `bytes`
 * of what has a room are the room's. They are valid until shapes are set again; before that, or
 * after an error, -1 stands for what is not known, as in tw_@NAME@_describe(). */
const tw_value *tw_@NAME@_inputs(const tw_@NAME@ *context);
const tw_value *tw_@NAME@_outputs(const tw_@NAME@ *context);

/* Names and ranges of what the shapes bring. */
const tw_symbols *tw_@NAME@_symbols(void);

