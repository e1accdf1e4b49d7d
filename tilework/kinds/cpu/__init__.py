"""CPUs: vectors and register tiles, threads, caches; code by LLVM."""
