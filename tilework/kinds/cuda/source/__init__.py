"""CUDA C from loop programs, and what its machine code says."""
