/* Runs mlp.so on a file of inputs in several ways; writes every output to another file. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlp.h"

static void stop(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tw_mlp_last_error());
  exit(1);
}

int main(int count, char **words) {
  const tw_description *about = tw_mlp_describe();
  const tw_value *in = &about->inputs[0], *out = &about->outputs[0];
  if (count != 3 || about->num_inputs != 1 || about->num_outputs != 1) return 2;
  char *from = aligned_alloc(64, (size_t)in->bytes + 128 & ~(size_t)63);
  char *to = aligned_alloc(64, (size_t)out->bytes + 128 & ~(size_t)63);
  FILE *file = fopen(words[1], "rb");
  if (fread(from, 1, (size_t)in->bytes, file) != (size_t)in->bytes) return 2;
  fclose(file);
  file = fopen(words[2], "wb");
  for (int threads = 1; threads <= 2; threads++) {
    tw_mlp *network, *other;
    if (tw_mlp_create(threads, &network) || tw_mlp_create(threads, &other)) stop("create");
    const void *inputs[] = {from};
    void *outputs[] = {to};
    if (tw_mlp_run(network, inputs, outputs)) stop("run");
    fwrite(to, 1, (size_t)out->bytes, file);
    /* pointers that are no multiples of 64 */
    memset(to, 0, (size_t)out->bytes);
    memmove(from + 4, from, (size_t)in->bytes);
    inputs[0] = from + 4;
    outputs[0] = to + 12;
    if (tw_mlp_run(other, inputs, outputs)) stop("run");
    fwrite(to + 12, 1, (size_t)out->bytes, file);
    memmove(from, from + 4, (size_t)in->bytes);
    /* tensors, one of them with strides and an offset */
    tw_tensor a = {from, {1, 0}, in->ndim, {2, 32, 1}, (int64_t *)in->shape, NULL, 0};
    tw_tensor b = {to, {1, 0}, out->ndim, {2, 32, 1}, (int64_t *)out->shape, NULL, 64};
    int64_t strides[] = {out->shape[1], 1};
    b.strides = strides;
    const tw_tensor *as[] = {&a}, *bs[] = {&b};
    if (tw_mlp_run_tensors(network, as, bs)) stop("run_tensors");
    fwrite(to + 64, 1, (size_t)out->bytes, file);
    /* what is refused */
    int64_t odd[] = {7, 3};
    a.shape = odd;
    if (!tw_mlp_run_tensors(network, as, bs)) return 3;
    puts(tw_mlp_last_error());
    a.shape = (int64_t *)in->shape;
    a.dtype.bits = 64;
    if (!tw_mlp_run_tensors(network, as, bs)) return 3;
    puts(tw_mlp_last_error());
    a.dtype.bits = 32;
    a.device.device_type = 2;
    if (!tw_mlp_run_tensors(network, as, bs)) return 3;
    puts(tw_mlp_last_error());
    strides[0]++;
    a.device.device_type = 1;
    if (!tw_mlp_run_tensors(network, as, bs)) return 3;
    puts(tw_mlp_last_error());
    inputs[0] = NULL;
    if (!tw_mlp_run(network, inputs, outputs)) return 3;
    puts(tw_mlp_last_error());
    inputs[0] = outputs[0];
    if (!tw_mlp_run(network, inputs, outputs)) return 3;
    puts(tw_mlp_last_error());
    if (!tw_mlp_run(NULL, inputs, outputs)) return 3;
    puts(tw_mlp_last_error());
    tw_mlp_destroy(network);
    tw_mlp_destroy(other);
  }
  tw_mlp_destroy(NULL);
  tw_mlp *none;
  if (!tw_mlp_create(-1, &none) || none) return 3;
  puts(tw_mlp_last_error());
  if (!tw_mlp_create_at("i486", 1, &none) || none) return 3;
  puts(tw_mlp_last_error());
  fclose(file);
  free(from);
  free(to);
  return 0;
}
