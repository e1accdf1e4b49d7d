// Threads of a block as fibres: stacks between which one thread of this process goes to and fro.

#ifndef TW_FIBRES_H
#define TW_FIBRES_H

#include <stddef.h>

// A fibre's place: where it goes on.
struct tw_context;

// Stacks that are free; the one given back last is used first, as it is still in the cache.
class Stacks {
 public:
  // A stack of 64 KiB, below which lies memory that cannot be touched; null: there is no memory.
  char* take();
  void give_back(char* stack);

 private:
  char* free_[1024];
  int count_ = 0, made_ = 0;
};

// Have `start` begin on a stack at the next switch to the result.
tw_context* begin_on(char* stack, void (*start)());
// Go on at `to`; what called this goes on when somebody switches to what is put into `from`.
void switch_to(tw_context** from, tw_context* to);

#endif
