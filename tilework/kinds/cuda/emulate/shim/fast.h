// Accesses as they are: pointers.

#ifndef TW_GRANULE
#define TW_GRANULE 1
#endif

#define TW_IN(T, name, size) const T* __restrict__ name
#define TW_SAME(T, name, size) const T* name
#define TW_OUT(T, name, size) T* name
#define TW_TEMP(T, name, size) T* name

#define TW_SHARED(T, name, size, offset)                                             \
  static_assert((offset) % 16 == 0 && (offset) + (size) * sizeof(T) <= tw_block_bytes, \
                #name " does not lie within the block's memory");                      \
  T* const name = (T*)(tw_block + (offset))

#define TW_LD(buffer, i) tw_value((buffer)[i])
#define TW_ST(buffer, i, value) tw_store((buffer) + (i), value)
template <class T, class V>
TW_DEVICE void tw_store(T* p, V value) {
  *p = tw_element<T>::of(value);
}

template <class T>
TW_DEVICE auto tw_load2(const T* p) -> tw_vector2<decltype(tw_value(*p))> {
  return {tw_value(p[0]), tw_value(p[1])};
}
template <class T>
TW_DEVICE auto tw_load4(const T* p) -> tw_vector4<decltype(tw_value(*p))> {
  return {tw_value(p[0]), tw_value(p[1]), tw_value(p[2]), tw_value(p[3])};
}
// Values first, then stores: they may read what the vector overwrites.
template <class T, class V>
TW_DEVICE void tw_store2(T* p, V x, V y) {
  const T a = tw_element<T>::of(x), b = tw_element<T>::of(y);
  p[0] = a, p[1] = b;
}
template <class T, class V>
TW_DEVICE void tw_store4(T* p, V x, V y, V z, V w) {
  const T a = tw_element<T>::of(x), b = tw_element<T>::of(y);
  const T c = tw_element<T>::of(z), d = tw_element<T>::of(w);
  p[0] = a, p[1] = b, p[2] = c, p[3] = d;
}
#define TW_LD2(buffer, i) tw_load2((buffer) + (i))
#define TW_LD4(buffer, i) tw_load4((buffer) + (i))
#define TW_ST2(buffer, i, x, y) tw_store2((buffer) + (i), x, y)
#define TW_ST4(buffer, i, x, y, z, w) tw_store4((buffer) + (i), x, y, z, w)

#define TW_COPY(bytes, to, ti, from, fi, ok) \
  tw_rt->copy((to) + (ti), (ok) ? (from) + (fi) : nullptr, bytes, -1)
#define TW_ROW(buffer, i) ((buffer) + (i))

template <class T>
struct tw_bound;
template <class T>
struct tw_bound<T*> {
  static constexpr tw_parameter parameter{TW_ROLE_IN, 0, 0};
  static inline T* argument(const tw_argument& a) { return (T*)a.pointer; }
};

#define TW_ASSUME(condition) (void)0
