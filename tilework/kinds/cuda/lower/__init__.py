"""Forms of kernels as loop programs, one module each."""
