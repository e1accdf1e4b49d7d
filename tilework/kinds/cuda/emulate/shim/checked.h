// Accesses checked: bounds, alignment, shared memory read before it is written, races, outputs
// written twice or read. Buffers are objects here; what is wrong is reported with its line.

#include "shared.h"

// --- arguments ---------------------------------------------------------------------------------

// This thread among all of the launch, from 1.
TW_DEVICE int tw_everywhere() {
  return (int)(tw_rt->block.x * tw_rt->threads.x) + tw_rt->self + 1;
}

template <class T, long size>
struct tw_in {
  static constexpr long elements = size;
  const T* p;

  const T* at(long i) const { return p + i; }
  T read(long i, tw_site site) const {
    if (i >= 0 && i < size) return p[i];
    tw_note(site, i, "is read outside");
    return T();
  }
  void trace(bool, long i, int count, tw_site site) const {
    tw_note_traffic(TW_GLOBAL_LOAD, site, i * (long)sizeof(T), count * (int)sizeof(T));
  }
};

// An input in whose place an output may be written: once an element has been overwritten, or may
// have been, nothing reads it.
template <class T, long size>
struct tw_same : tw_in<T, size> {
  tw_owner* owners;

  T read(long i, tw_site site) const {
    if (owners && i >= 0 && i < size) note(owners[i], i, site);
    return tw_in<T, size>::read(i, site);
  }
  static void note(tw_owner& owner, long i, tw_site site) {
    const int me = tw_everywhere(), block = (int)tw_rt->block.x;
    if (owner.writer) tw_note(site, i, "is read after an output has overwritten it");
    if (!owner.reader || owner.reader == me) {
      owner.reader = me;
    } else {
      const int before =
          owner.reader > 0 ? (owner.reader - 1) / (int)tw_rt->threads.x : -1 - owner.reader;
      owner.reader = before == block ? -1 - block : TW_SEVERAL_BLOCKS;
    }
    owner.reader_epoch = tw_rt->epoch;
  }
};

template <class T, long size>
struct tw_out {
  static constexpr long elements = size;
  T* p;
  tw_owner* owners;

  T* at(long i) const { return p + i; }
  T read(long i, tw_site site) const {
    tw_note(site, i, "is written by this kernel and must not be read");
    return i >= 0 && i < size ? p[i] : T();
  }
  void write(long i, T value, tw_site site) const {
    if (i < 0 || i >= size) {
      tw_note(site, i, "is written outside");
      return;
    }
    tw_owner& owner = owners[i];
    const int me = tw_everywhere(), block = (int)tw_rt->block.x;
    if (owner.writer) tw_note(site, i, "is written twice");
    if (owner.reader && owner.reader != me) {
      const int before =
          owner.reader > 0 ? (owner.reader - 1) / (int)tw_rt->threads.x : -1 - owner.reader;
      if (owner.reader == TW_SEVERAL_BLOCKS || before != block ||
          owner.reader_epoch == tw_rt->epoch)
        tw_note(site, i, "overwrites an input that another thread reads");
    }
    owner.writer = me;
    p[i] = value;
  }
  void trace(bool store, long i, int count, tw_site site) const {
    tw_note_traffic(store ? TW_GLOBAL_STORE : TW_GLOBAL_LOAD, site, i * (long)sizeof(T),
                    count * (int)sizeof(T));
  }
};

#define TW_IN(T, name, size) const tw_in<T, size> name
#define TW_SAME(T, name, size) const tw_same<T, size> name
#define TW_OUT(T, name, size) const tw_out<T, size> name
#define TW_TEMP(T, name, size) const tw_out<T, size> name

template <class P>
struct tw_bound;
template <class T, long size>
struct tw_bound<tw_in<T, size>> {
  static constexpr tw_parameter parameter{TW_ROLE_IN, size, sizeof(T)};
  static tw_in<T, size> argument(const tw_argument& a) { return {(const T*)a.pointer}; }
};
template <class T, long size>
struct tw_bound<tw_same<T, size>> {
  static constexpr tw_parameter parameter{TW_ROLE_SAME, size, sizeof(T)};
  static tw_same<T, size> argument(const tw_argument& a) {
    return {{(const T*)a.pointer}, a.owners};
  }
};
template <class T, long size>
struct tw_bound<tw_out<T, size>> {
  static constexpr tw_parameter parameter{TW_ROLE_OUT, size, sizeof(T)};
  static tw_out<T, size> argument(const tw_argument& a) { return {(T*)a.pointer, a.owners}; }
};

// --- accesses ----------------------------------------------------------------------------------

template <template <class, long...> class View, class T, long... n>
T tw_type_of(const View<T, n...>&);
#define TW_TYPE(buffer) decltype(tw_type_of(buffer))

// An argument may lie anywhere in a larger array: its address counts, not the index.
template <class B>
TW_DEVICE void tw_check_aligned(const B& b, long i, int count, tw_site site) {
  if ((uintptr_t)b.at(i) % (count * sizeof(*b.at(i))))
    tw_note(site, i, "is the start of a vector and not aligned");
}

template <class B>
static inline auto tw_load1(const B& b, long i, tw_site site) {
  b.trace(false, i, 1, site);
  return tw_value(b.read(i, site));
}
template <class B>
static inline auto tw_load2(const B& b, long i, tw_site site) {
  b.trace(false, i, 2, site);
  tw_check_aligned(b, i, 2, site);
  return tw_vector2<decltype(tw_value(b.read(i, site)))>{tw_value(b.read(i, site)),
                                                         tw_value(b.read(i + 1, site))};
}
template <class B>
static inline auto tw_load4(const B& b, long i, tw_site site) {
  b.trace(false, i, 4, site);
  tw_check_aligned(b, i, 4, site);
  return tw_vector4<decltype(tw_value(b.read(i, site)))>{
      tw_value(b.read(i, site)), tw_value(b.read(i + 1, site)), tw_value(b.read(i + 2, site)),
      tw_value(b.read(i + 3, site))};
}
template <class B, class V>
static inline void tw_store1(const B& b, long i, V value, tw_site site) {
  b.trace(true, i, 1, site);
  b.write(i, tw_element<TW_TYPE(b)>::of(value), site);
}
template <class B, class V>
static inline void tw_store2(const B& b, long i, V x, V y, tw_site site) {
  b.trace(true, i, 2, site);
  tw_check_aligned(b, i, 2, site);
  const V all[2] = {x, y};
  for (int k = 0; k < 2; ++k) b.write(i + k, tw_element<TW_TYPE(b)>::of(all[k]), site);
}
template <class B, class V>
static inline void tw_store4(const B& b, long i, V x, V y, V z, V w, tw_site site) {
  b.trace(true, i, 4, site);
  tw_check_aligned(b, i, 4, site);
  const V all[4] = {x, y, z, w};
  for (int k = 0; k < 4; ++k) b.write(i + k, tw_element<TW_TYPE(b)>::of(all[k]), site);
}
#define TW_LD(buffer, i) tw_load1(buffer, i, TW_SITE(buffer))
#define TW_LD2(buffer, i) tw_load2(buffer, i, TW_SITE(buffer))
#define TW_LD4(buffer, i) tw_load4(buffer, i, TW_SITE(buffer))
#define TW_ST(buffer, i, value) tw_store1(buffer, i, value, TW_SITE(buffer))
#define TW_ST2(buffer, i, x, y) tw_store2(buffer, i, x, y, TW_SITE(buffer))
#define TW_ST4(buffer, i, x, y, z, w) tw_store4(buffer, i, x, y, z, w, TW_SITE(buffer))

// An asynchronous copy of `bytes` bytes. It may land at once, so that what a write must not
// overtake it must not either; and it may land late, so that nothing touches its cells till then.
template <int bytes, class T, long size, long offset, long declared, class From>
static inline void tw_copy_checked(const tw_shared<T, size, offset, declared>& to, long ti,
                                   const From& from, long fi, bool ok, tw_site site,
                                   tw_site source) {
  constexpr int count = bytes / sizeof(T);
  static_assert(count >= 1 && bytes % sizeof(T) == 0, "a copy of whole elements");
  tw_note_traffic(TW_SHARED_STORE, site, offset + ti * (long)sizeof(T), bytes);
  if (ok) from.trace(false, fi, count, source);
  if (ti < 0 || ti + count > size) return tw_note(site, ti, "is written outside by a copy");
  if ((uintptr_t)to.at(ti) % bytes)
    return tw_note(site, ti, "is the target of a copy and not aligned");
  if (ok && (uintptr_t)from.at(fi) % bytes)
    return tw_note(source, fi, "is the source of a copy and not aligned");
  if (ok)
    for (int k = 0; k < count; ++k) (void)from.read(fi + k, source);
  tw_cell* cells = to.cells(ti);
  for (int k = 0; k < bytes / TW_GRANULE; ++k) {
    tw_check_write(cells[k], declared, site, ti);
    cells[k].copying = tw_rt->epoch;
  }
  const bool inside = fi >= 0 && fi + count <= from.elements;
  tw_rt->copy(to.at(ti), ok && inside ? from.at(fi) : nullptr, bytes,
              (int)(cells - tw_rt->cells));
}
#define TW_COPY(bytes, to, ti, from, fi, ok) \
  tw_copy_checked<bytes>(to, ti, from, fi, ok, TW_SITE(to), TW_SITE(from))

// The row of a matrix, 16 bytes, that a lane names.
template <class T, long size, long offset, long declared>
static inline const void* tw_row(const tw_shared<T, size, offset, declared>& buffer, long i,
                                 tw_site site) {
  constexpr int count = 16 / sizeof(T);
  static const uint32_t none[4] = {0, 0, 0, 0};
  buffer.trace(false, i, count, site);
  if ((uintptr_t)buffer.at(i) % 16) {
    tw_note(site, i, "is the start of a matrix row and not aligned");
    return none;
  }
  bool inside = i >= 0 && i + count <= size;
  for (int k = 0; k < count; ++k) (void)buffer.read(i + k, site);
  return inside ? (const void*)buffer.at(i) : none;
}
#define TW_ROW(buffer, i) tw_row(buffer, i, TW_SITE(buffer))

#define TW_ASSUME(condition) \
  ((condition) ? (void)0 : tw_rt->fail(__LINE__, #condition, TW_NO_INDEX, "does not hold"))

// --- arrays of a thread ------------------------------------------------------------------------

// The compiler puts a call of one of these before an index that its array does not have
// (-fsanitize=bounds); `at` begins with the file's name, the line and the column.
struct tw_source {
  const char* file;
  uint32_t line, column;
};
extern "C" {
inline __attribute__((used, visibility("hidden"))) void __ubsan_handle_out_of_bounds(
    tw_source* at, uintptr_t index) {
  tw_rt->fail((int)at->line, "a thread's array", (long)index, "has no such element");
}
inline __attribute__((used, visibility("hidden"))) void __ubsan_handle_out_of_bounds_abort(
    tw_source* at, uintptr_t index) {
  tw_rt->fail((int)at->line, "a thread's array", (long)index, "has no such element");
}
}
