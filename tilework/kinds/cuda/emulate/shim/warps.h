// What the lanes of a warp do together, and copies that land later.

template <class T>
static inline T tw_shuffle_xor(T value, int distance, int line) {
  static_assert(sizeof(T) <= 8, "shuffled values have at most 8 bytes");
  tw_shuffle lane{0, 0, distance};
  memcpy(&lane.value, &value, sizeof value);
  tw_rt->together(line, TW_SHUFFLE, &lane);
  T out;
  memcpy(&out, &lane.result, sizeof out);
  return out;
}
#define TW_SHFL_XOR(value, distance) tw_shuffle_xor(value, distance, __LINE__)

static inline void tw_load_matrices(uint32_t* r, const void* row, tw_operation how, int line) {
  tw_matrices lane{row, r};
  tw_rt->together(line, how, &lane);
}
#define TW_LDMATRIX_X4(registers, buffer, i) \
  tw_load_matrices(registers, TW_ROW(buffer, i), TW_LOAD_MATRICES, __LINE__)
#define TW_LDMATRIX_X4_TRANS(registers, buffer, i) \
  tw_load_matrices(registers, TW_ROW(buffer, i), TW_LOAD_TRANSPOSED, __LINE__)

static inline void tw_multiply(float* c, const uint32_t* a, const uint32_t* b, tw_operation how,
                               int line) {
  tw_product lane{c, a, b};
  tw_rt->together(line, how, &lane);
}
#define TW_MMA_BF16(c, a, b) tw_multiply(c, a, b, TW_MULTIPLY_BF16, __LINE__)
#define TW_MMA_F16(c, a, b) tw_multiply(c, a, b, TW_MULTIPLY_F16, __LINE__)
#define TW_MMA_TF32(c, a, b) tw_multiply(c, a, b, TW_MULTIPLY_TF32, __LINE__)

#define TW_CP_ASYNC4(to, ti, from, fi, ok) TW_COPY(4, to, ti, from, fi, ok)
#define TW_CP_ASYNC8(to, ti, from, fi, ok) TW_COPY(8, to, ti, from, fi, ok)
#define TW_CP_ASYNC16(to, ti, from, fi, ok) TW_COPY(16, to, ti, from, fi, ok)
#define TW_CP_COMMIT() tw_rt->commit()
#define TW_CP_WAIT(left) tw_rt->wait(left)
