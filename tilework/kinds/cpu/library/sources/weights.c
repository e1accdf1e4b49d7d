/* Where weights are: in the library, or in a file beside it. */

#ifdef WEIGHTS_INSIDE

__asm__(".section .tw_weights,\"a\",%progbits\n"
        ".balign " WEIGHTS_ALIGN "\n"
        ".hidden tw_weights\n"
        ".globl tw_weights\n"
        "tw_weights:\n"
        ".incbin \"" WEIGHTS_INSIDE "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const unsigned char tw_weights[];

static const unsigned char *weights_here(void) { return tw_weights; }
static void forget_weights(void) {}

#else

static char library_path[PATH_MAX];
static const unsigned char *weights;

/* Where the weights' file lies is known by where the library does, when it is loaded: later the
 * working directory may be another one. */
__attribute__((constructor)) static void find_library(void) {
  Dl_info info;
  char *whole = NULL;
  if (dladdr((void *)&library_path, &info) && info.dli_fname) whole = realpath(info.dli_fname, NULL);
  if (whole && strlen(whole) < sizeof library_path) strcpy(library_path, whole);
  free(whole);
}

/* Mapped where huge pages of the file can be huge pages of memory. */
static void *map_file(int file, size_t bytes) {
  unsigned char *room = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return NULL;
  size_t before = -(uintptr_t)room % HUGE_PAGE;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  void *data = mmap(room + before, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
  if (data == MAP_FAILED) {
    munmap(room, bytes + HUGE_PAGE);
    return NULL;
  }
  if (before) munmap(room, before);
  if (HUGE_PAGE - before) munmap((unsigned char *)data + whole, HUGE_PAGE - before);
  return data;
}

static const unsigned char *map_weights(const char *path) {
  char line[sizeof WEIGHTS_LINE];
  struct stat about;
  size_t length = sizeof line - 1, bytes = (size_t)WEIGHTS_BYTES + length;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail("cannot open the weights in %s: %s; keep that file beside the library", path,
         strerror(errno));
    return NULL;
  }
  void *data = NULL;
  if (fstat(file, &about) ||
      pread(file, line, length, about.st_size - (off_t)length) != (ssize_t)length ||
      memcmp(line, WEIGHTS_LINE, length))
    fail("%s has not the weights of this library, or is damaged: keep the two files together",
         path);
  else if ((uint64_t)about.st_size != bytes)
    fail("%s is damaged: it has %lld bytes instead of %lld", path, (long long)about.st_size,
         (long long)bytes);
  else if (!(data = map_file(file, bytes)))
    fail("cannot map %s: %s", path, strerror(errno));
  close(file);
  return data;
}

static const unsigned char *weights_here(void) {
  char path[PATH_MAX];
  if (weights) return weights;
  const char *slash = strrchr(library_path, '/');
  int length = slash ? (int)(slash - library_path) : 0;
  if (!slash || snprintf(path, sizeof path, "%.*s/%s", length, library_path, WEIGHTS_FILE) >=
                    (int)sizeof path) {
    fail("cannot tell in which folder the library lies: %s must be beside it", WEIGHTS_FILE);
    return NULL;
  }
  return weights = map_weights(path);
}

static void forget_weights(void) {
  if (weights) munmap((void *)weights, (size_t)WEIGHTS_BYTES + sizeof WEIGHTS_LINE - 1);
  weights = NULL;
}

#endif

/* Bring a level's weights into the page tables at once, not page by page in the first run; and
 * those that the system has to read, as huge pages. */
static void populate(const unsigned char *base, const code *c) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (uint32_t i = 0; i < c->num_ranges; i++) {
    uintptr_t begin = ((uintptr_t)base + c->ranges[i].first) / page * page;
    uintptr_t end = ((uintptr_t)base + c->ranges[i].second + page - 1) / page * page;
    if (end - begin >= HUGE_PAGE) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    if (madvise((void *)begin, end - begin, MADV_POPULATE_READ)) /* Linux 5.14 */
      madvise((void *)begin, end - begin, MADV_WILLNEED);
  }
}
