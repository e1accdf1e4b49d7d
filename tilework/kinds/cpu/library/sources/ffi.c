/* The convention of tvm-ffi. */

typedef struct {
  int32_t type;
  uint32_t zero;
  union {
    int64_t number;
    void *pointer;
  } value;
} ffi_any;

enum { FFI_NONE = 0, FFI_TENSOR_POINTER = 7, FFI_TENSOR = 70, FFI_OBJECT_BYTES = 24 };
enum { MOST_IDLE = 8 };

static context *idle[MOST_IDLE];
static int num_idle;

static int ffi_fail(void) {
  void (*raise_error)(const char *, const char *) =
      (void (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "TVMFFIErrorSetRaisedFromCStr");
  if (raise_error) raise_error("ValueError", last_error);
  return -1;
}

static context *idle_context(void) {
  context *found = NULL;
  pthread_mutex_lock(&lock);
  if (num_idle) found = idle[--num_idle];
  pthread_mutex_unlock(&lock);
  if (!found) TW(create)(0, &found);
  return found;
}

static void keep_idle(context *c) {
  pthread_mutex_lock(&lock);
  int kept = num_idle < MOST_IDLE;
  if (kept) idle[num_idle++] = c;
  pthread_mutex_unlock(&lock);
  if (!kept) TW(destroy)(c);
}

/* run(inputs.., outputs..): tensors, of which the last ones are written. */
EXPORT int __tvm_ffi_run(void *self, const ffi_any *arguments, int32_t count, ffi_any *result) {
  const tw_tensor *tensors[NUM_INPUTS + NUM_OUTPUTS + 1];
  (void)self;
  if (count != NUM_INPUTS + NUM_OUTPUTS) {
    fail("run takes %d inputs and then %d outputs, not %d tensors", NUM_INPUTS, NUM_OUTPUTS,
         (int)count);
    return ffi_fail();
  }
  for (int i = 0; i < count; i++) {
    unsigned char *object = arguments[i].value.pointer;
    if (arguments[i].type == FFI_TENSOR) object += FFI_OBJECT_BYTES;
    else if (arguments[i].type != FFI_TENSOR_POINTER) {
      fail("run: argument %d is no tensor", i);
      return ffi_fail();
    }
    tensors[i] = (const tw_tensor *)object;
  }
  context *c = idle_context();
  if (!c) return ffi_fail();
  int failed = TW(run_tensors)(c, tensors, tensors + NUM_INPUTS);
  keep_idle(c);
  if (failed) return ffi_fail();
  result->type = FFI_NONE;
  result->zero = 0;
  result->value.number = 0;
  return 0;
}
