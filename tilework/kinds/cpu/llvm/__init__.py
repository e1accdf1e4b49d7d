"""Code generation: loop programs to LLVM IR and object code."""
