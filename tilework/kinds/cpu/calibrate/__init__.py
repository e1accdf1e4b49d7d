"""What this machine's cores, caches and memory do, measured with generated code."""
