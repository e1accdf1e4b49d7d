// Shared memory whose elements know who touched them last: included by checked.h.

#ifndef TW_GRANULE
#define TW_GRANULE 1  // bytes; divides the size of each type in shared memory
#endif

// Where the text accesses memory.
struct tw_site {
  const char* name;
  int line, number;
};
#define TW_SITE(buffer) \
  tw_site { #buffer, __LINE__, __COUNTER__ }

TW_DEVICE void tw_note(tw_site at, long i, const char* what, int other = -1) {
  tw_rt->report(at.line, at.name, i, what, other);
}
TW_DEVICE void tw_note_traffic(tw_traffic kind, tw_site at, long offset, int bytes) {
  if (__builtin_expect(tw_rt->tracing, 0)) tw_rt->trace(kind, at.number, offset, bytes);
}

// Whether what another thread did in this epoch of the block was before a barrier of our warp.
TW_DEVICE bool tw_ordered(int thread, int in_warp) {
  return thread >= 0 && thread / 32 == tw_rt->self / 32 && in_warp != tw_rt->warp_epoch;
}
TW_DEVICE bool tw_check_landed(tw_cell& cell, tw_site at, long i, const char* what) {
  if (__builtin_expect(cell.copying < tw_rt->first_epoch, 1)) return true;
  tw_note(at, i, what, cell.writer);
  return false;
}
static inline void tw_check_read(tw_cell& cell, int buffer, tw_site at, long i) {
  tw_runtime& rt = *tw_rt;
  if (!tw_check_landed(cell, at, i, "is read while a copy to it is under way")) return;
  if (cell.written < rt.first_epoch) {
    tw_note(at, i, "is read before it is written");
    return;
  }
  if (cell.buffer != (short)buffer)
    tw_note(at, i, "is read before it is written: another buffer was written in its place",
            cell.writer);
  if (cell.written == rt.epoch && cell.writer != rt.self &&
      !tw_ordered(cell.writer, cell.written_in_warp))
    tw_note(at, i, "race: read after another thread's write, without a barrier between",
            cell.writer);
  if (cell.read != rt.epoch) {
    cell.reading_warp = (short)(rt.self / 32);
    cell.reader = (short)rt.self;
  } else {
    if (cell.reading_warp != rt.self / 32) cell.reading_warp = TW_SEVERAL;
    if (cell.read_in_warp != rt.warp_epoch)
      cell.reader = (short)rt.self;
    else if (cell.reader != rt.self)
      cell.reader = TW_SEVERAL;
  }
  cell.read = rt.epoch;
  cell.read_in_warp = rt.warp_epoch;
}
static inline void tw_check_write(tw_cell& cell, int buffer, tw_site at, long i) {
  tw_runtime& rt = *tw_rt;
  if (!tw_check_landed(cell, at, i, "is written while a copy to it is under way")) return;
  if (cell.written == rt.epoch && cell.writer != rt.self &&
      !tw_ordered(cell.writer, cell.written_in_warp))
    tw_note(at, i, "race: written by two threads, without a barrier between", cell.writer);
  if (cell.read == rt.epoch) {
    const bool alone = cell.reading_warp == rt.self / 32 &&
                       (cell.reader == rt.self || cell.read_in_warp != rt.warp_epoch);
    if (!alone)
      tw_note(at, i, "race: written after another thread's read, without a barrier between",
              cell.reader);
  }
  cell.written = rt.epoch;
  cell.written_in_warp = rt.warp_epoch;
  cell.writer = (short)rt.self;
  cell.buffer = (short)buffer;
}

template <class T, long size, long offset, long declared>
struct tw_shared {
  static_assert(sizeof(T) % TW_GRANULE == 0, "granules of shared memory are too large");
  static constexpr int cells_each = sizeof(T) / TW_GRANULE;
  unsigned char* block;

  T* at(long i) const { return (T*)(block + offset) + i; }
  static tw_cell* cells(long i) { return tw_rt->cells + offset / TW_GRANULE + i * cells_each; }

  bool inside(long i, tw_site site, const char* what) const {
    if (__builtin_expect(i >= 0 && i < size, 1)) return true;
    tw_note(site, i, what);
    return false;
  }
  T read(long i, tw_site site) const {
    if (!inside(i, site, "is read outside")) return T();
    for (int k = 0; k < cells_each; ++k) tw_check_read(cells(i)[k], declared, site, i);
    return *at(i);
  }
  void write(long i, T value, tw_site site) const {
    if (!inside(i, site, "is written outside")) return;
    for (int k = 0; k < cells_each; ++k) tw_check_write(cells(i)[k], declared, site, i);
    *at(i) = value;
  }
  void trace(bool store, long i, int count, tw_site site) const {
    tw_note_traffic(store ? TW_SHARED_STORE : TW_SHARED_LOAD, site, offset + i * (long)sizeof(T),
                    count * (int)sizeof(T));
  }
};
#define TW_SHARED(T, name, size, offset)                                             \
  static_assert((offset) % 16 == 0 && (offset) + (size) * sizeof(T) <= tw_block_bytes, \
                #name " does not lie within the block's memory");                      \
  const tw_shared<T, size, offset, __LINE__> name{tw_block}
