/* ResNet-18 from C: no Python, nothing of Tilework but the library.
 *
 *   resnet18 [IMAGE [THREADS]]
 *
 * IMAGE holds 224 x 224 x 3 float32 numbers, red, green and blue of each pixel; without it, or
 * with "-", a gradient is looked at. Prints the five best classes, and milliseconds of a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "resnet18.h"

enum { PIXELS = 224 * 224 * 3, CLASSES = 1000, RUNS = 20 };

static double now_ms(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

int main(int count, char **words) {
  /* at multiples of 64 bytes runs take arrays without copying them */
  float *image = aligned_alloc(64, PIXELS * sizeof *image);
  float *scores = aligned_alloc(64, (CLASSES * sizeof *scores + 63) / 64 * 64);
  if (!image || !scores) return fail("memory", "there is none");
  for (int i = 0; i < PIXELS; i++) image[i] = (float)(i % 672) / 336.0f - 1.0f;
  if (count > 1 && words[1][0] != '-') {
    FILE *file = fopen(words[1], "rb");
    if (!file || fread(image, sizeof *image, PIXELS, file) != PIXELS)
      return fail(words[1], "not 150528 float32 numbers");
    fclose(file);
  }

  tw_resnet18 *network;
  double begin = now_ms();
  if (tw_resnet18_create(count > 2 ? atoi(words[2]) : 0, &network))
    return fail("create", tw_resnet18_last_error());
  printf("%s at level %s, ready after %.1f ms\n", tw_resnet18_describe()->name,
         tw_resnet18_level(network), now_ms() - begin);

  const void *inputs[] = {image};
  void *outputs[] = {scores};
  double best = 0;
  for (int i = 0; i < RUNS; i++) {
    begin = now_ms();
    if (tw_resnet18_run(network, inputs, outputs)) return fail("run", tw_resnet18_last_error());
    double ms = now_ms() - begin;
    if (i == 0 || ms < best) best = ms;
  }
  printf("%.2f ms\n", best);
  for (int rank = 0; rank < 5; rank++) {
    int top = 0;
    for (int i = 1; i < CLASSES; i++)
      if (scores[i] > scores[top]) top = i;
    printf("class %d: %.6f\n", top, scores[top]);
    scores[top] = -1;
  }
  tw_resnet18_destroy(network);
  free(image);
  free(scores);
  return 0;
}
