// What compiled kernels and the runtime know of each other. A library of kernels is given the
// runtime's address when it is loaded, so that it links with nothing.

#ifndef TW_INTERFACE_H
#define TW_INTERFACE_H

#include <stdint.h>

struct tw_dim {
  unsigned x, y, z;
};

// Who touched a granule of shared memory last, for races. Epochs count the barriers that a block,
// or a warp, has passed; they never start again, so what an earlier block left is simply old.
struct tw_cell {
  int written, written_in_warp;  // epochs of the last write
  int read, read_in_warp;        // epochs of the last read
  int copying;                   // epoch of an asynchronous copy that has not landed; -1: none
  short writer;                  // thread
  short buffer;                  // through which it was written: the line that declares it
  short reader, reading_warp;    // TW_SEVERAL: more than one in this epoch
};
enum { TW_SEVERAL = -2 };

// Who touched an element of an output during a launch. Threads are counted over all blocks, from 1.
struct tw_owner {
  int writer;
  int reader;        // of an input in the same place; -1 - block: several of a block
  int reader_epoch;  // of its block
};
enum { TW_SEVERAL_BLOCKS = -2147483647 - 1 };

// An argument of a launch.
struct tw_argument {
  void* pointer;
  tw_owner* owners;  // of what is written here; null for what is only read
};

enum tw_role { TW_ROLE_IN, TW_ROLE_SAME, TW_ROLE_OUT };
struct tw_parameter {
  tw_role role;
  long elements, bytes;  // bytes of one element; 0: not known
};

// A kernel of a library, exported as NAME_entry.
struct tw_entry {
  void (*call)(const tw_argument*);
  const tw_parameter* parameters;
  int count;
  int granule;  // bytes of a tw_cell
  int checked;
};

// What all lanes of a warp do together, and what each lane hands in.
enum tw_operation {
  TW_SYNC,
  TW_SHUFFLE,
  TW_LOAD_MATRICES,
  TW_LOAD_TRANSPOSED,
  TW_MULTIPLY_BF16,
  TW_MULTIPLY_F16,
  TW_MULTIPLY_TF32,
};
struct tw_shuffle {
  uint64_t value, result;
  int distance;
};
struct tw_matrices {
  const void* row;
  uint32_t* registers;
};
struct tw_product {
  float* c;
  const uint32_t *a, *b;
};

// What is reported is no element.
constexpr long TW_NO_INDEX = -__LONG_MAX__ - 1;

enum tw_traffic { TW_GLOBAL_LOAD, TW_GLOBAL_STORE, TW_SHARED_LOAD, TW_SHARED_STORE };

struct tw_runtime {
  tw_dim thread, block, threads, blocks;  // CUDA's threadIdx, blockIdx, blockDim, gridDim
  int self;                               // the running thread's number in its block
  int fresh;                              // whether the block's shared memory is still to be poisoned
  int epoch, first_epoch, warp_epoch;     // first_epoch: when this block began
  int tracing;
  tw_cell* cells;  // of this block's shared memory

  void (*begin_block)(void* memory, long bytes, int dynamic);
  void (*barrier)(int line);
  void (*together)(int line, tw_operation, void* lane);
  // An asynchronous copy; from null: zeros. Without cells, first < 0.
  void (*copy)(void* to, const void* from, int bytes, int first_cell);
  void (*commit)();
  void (*wait)(int left);
  // `other`: the other thread, or a value below 0
  void (*report)(int line, const char* name, long index, const char* what, int other);
  void (*fail)(int line, const char* name, long index, const char* what);  // ends the launch
  void (*trace)(tw_traffic, int site, long offset, int bytes);
};

#endif
